package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// sample is the agent that is played in boxes: it asks its model twice.
const sample = "kinds/shopping/data/samples/react"

// boxes measures whole agents in boxes: POST /run with a scripted model behind HTTP
// as the trainer's. It prints episodes a second and how many of them were solved.
func boxes(agon, dir string, length time.Duration, workers int) error {
	script, err := scripted.Load(sample + "/script.json")
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	model := &http.Server{Handler: scripted.Handler(script), ReadHeaderTimeout: time.Minute}
	go func() { _ = model.Serve(ln) }() // ends with Close
	defer model.Close()
	cmd := exec.Command(agon, "env", "serve", "--arena", "demo-shopping", "--agent", sample+"/agent.py", "--runs", strconv.Itoa(workers), "--listen", "127.0.0.1:0", "--data", dir, "-o", "jsonl")
	d, stop, err := serve(cmd, workers)
	if err != nil {
		return err
	}
	stop = sync.OnceFunc(stop)
	defer stop()
	one := func() (reward float64, driver string, err error) {
		b, err := d.post("/run", "", map[string]any{"task": "demo/product-easy-01", "client": map[string]string{"base_url": "http://" + ln.Addr().String() + "/v1", "model": scripted.Name}})
		var got struct {
			Reward float64
			Driver struct{ Name string }
		}
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		return got.Reward, got.Driver.Name, err
	}
	_, driver, err := one() // the index is opened
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var n, solved atomic.Int64
	errs := make(chan error, workers)
	begun := time.Now()
	for range workers {
		wg.Go(func() {
			for time.Since(begun) < length {
				reward, _, err := one()
				if err != nil {
					errs <- err
					return
				}
				n.Add(1)
				if reward == 1 {
					solved.Add(1)
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	rate := float64(n.Load()) / time.Since(begun).Seconds()
	stop()
	// What the server and all its boxes took of the processors, which tells more than the clock where others work beside it.
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	fmt.Printf("whole agents in boxes of %s: %.2f episodes/s at %d at once, %d of %d solved; %d ms of processor an episode\n", driver, rate, workers, solved.Load(), n.Load(), used.Milliseconds()/max(1, n.Load()+1))
	return nil
}
