"""Plays `agon env serve` through the trainers' own libraries, with scripted models; usage: trainers.py WHAT URL ANSWERS.json.

ANSWERS.json is task -> product ids, "" where nothing answers. Every other answer is right. One JSON line: what was earned.
"""
import asyncio
import http.server
import json
import sys
import threading

what, url, answers = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3]))
EPISODES = 10


def verifiers():
    """A scripted model behind /v1/chat/completions: it searches, then answers, and sometimes asks for nonsense."""
    import agon
    import verifiers.v1 as vf
    from verifiers.v1.clients import EvalClientConfig, ModelContext

    from agon.env import Client

    with Client(url) as c:
        keys = {t.prompt: (i, t.key) for i, t in enumerate(c.tasks())}

    class Model(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_POST(self):
            q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert "find_product" in {t["function"]["name"] for t in q["tools"]}
            i, key = keys[next(m["content"] for m in q["messages"] if m["role"] == "user")]
            told = [m for m in q["messages"] if m["role"] == "tool"]
            right = answers[key] if i % 2 == 0 else "none"
            turns = [[("find_product", '{"q": "shoes"}'), ("no_such_tool", "{}"), ("find_product", "not JSON")],
                     [("recommend_product", json.dumps({"product_ids": right}))] if right else [("find_product", '{"q": "x"}')],
                     [("terminate", json.dumps({"status": "success" if right else "failure"}))]]
            n = {0: 0, 3: 1, 4: 2}[len(told)]
            calls = [{"id": f"c{n}{j}", "type": "function", "function": {"name": f, "arguments": a}} for j, (f, a) in enumerate(turns[n])]
            b = json.dumps({"id": "x", "object": "chat.completion", "created": 1, "model": q["model"], "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
                            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": None, "tool_calls": calls}}]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(b)))
            self.end_headers()
            self.wfile.write(b)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from verifiers.v1.envs.single_agent import SingleAgentEnvConfig
    from verifiers.v1.utils.loaders import load_environment

    env = load_environment(SingleAgentEnvConfig.model_validate({"taskset": {"id": "agon", "base_url": url, "limit": EPISODES}, "agent": {"runtime": {"type": "subprocess"}}}))
    assert type(env.taskset).__name__ == "ArenaTaskset" and agon.ArenaHarness
    ctx = ModelContext(model="scripted", client=EvalClientConfig(base_url=f"http://127.0.0.1:{server.server_address[1]}/v1", api_key_var="NONE"))

    async def play():
        rewards = []
        async with env.serving():
            for task in env.taskset:
                e = await env.run_episode(task, ctx)
                assert e.ok, e.errors or [t.errors for t in e.traces]
                (t,) = e.traces
                assert t.info["arena"]["calls"] == 5, t.info
                rewards.append(t.reward)
        return rewards

    return {"rewards": asyncio.run(play())}


def skyrl():
    """SkyRL-Gym makes the environment and plays it by text."""
    import skyrl_gym

    from agon import skyrl_env

    skyrl_env.register(url)
    rewards = []
    for i, row in enumerate(skyrl_env.rows(url)[:EPISODES]):
        env = skyrl_gym.make("agon", extras={"task": row["task"]})
        prompt, _ = env.init(row["prompt"])
        assert prompt[0]["role"] == "system"
        right = answers[row["task"]] if i % 2 == 0 else "none"
        call = lambda name, **a: "<tool_call>" + json.dumps({"name": name, "arguments": a}) + "</tool_call>"
        out = env.step("I look. " + call("find_product", q="shoes") + "<tool_call>{nonsense}</tool_call>")
        assert not out["done"] and "tool_response" in out["observations"][0]["content"], out
        out = env.step((call("recommend_product", product_ids=right) if right else "") + call("terminate", status="success" if right else "failure"))
        assert out["done"], out
        rewards.append(out["reward"])
        assert env.get_metrics()["turns"] == 2
        env.close()
    return {"rewards": rewards}


def trl():
    """Two steps of GRPOTrainer with environment_factory, and two with the reward function, of a Qwen3 of random weights."""
    import importlib.resources
    import tempfile

    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    from agon.trl_env import dataset, factory, reward

    torch.set_num_threads(2)
    torch.manual_seed(1)
    template = (importlib.resources.files("trl") / "chat_templates" / "qwen3.jinja").read_text()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"]
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens(special)
    tok = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template)
    steps = {}
    for name in ("environment", "reward"):
        net = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(tok), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1, head_dim=16, max_position_embeddings=16384))
        args = GRPOConfig(output_dir=tempfile.mkdtemp(), num_generations=2, per_device_train_batch_size=2, max_completion_length=12, max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=1, save_strategy="no")
        seen = []
        if name == "environment":
            kw = {"environment_factory": factory(url)}
        else:
            def read(text):
                return [("find_product", {"q": "shoes"}), ("no_such_tool", {}), ("recommend_product", {"product_ids": "1"})]
            f = reward(url, read)

            def arena(**k):
                seen.extend(f(**k))
                return seen[-len(k["completions"]):]
            kw = {"reward_funcs": arena}
        trainer = GRPOTrainer(model=net, processing_class=tok, train_dataset=dataset(url, 4), args=args, **kw)
        trainer.train()
        assert len(seen) == (4 if name == "reward" else 0) and sum("reward" in h for h in trainer.state.log_history) == 2
        steps[name] = trainer.state.global_step
    # A model of random weights calls nothing: the environment's methods, as TRL calls them.
    rewards = []
    env = factory(url)()
    for i, row in enumerate(dataset(url, EPISODES)):
        env.reset(**row)
        assert env.find_product(q="shoes").startswith("[") and env.get_reward.__self__ is env
        right = answers[row["task"]] if i % 2 == 0 else "none"
        if right:
            env.recommend_product(product_ids=right)
        env.terminate(status="success" if right else "failure")
        rewards.append(env.get_reward())
    return {"steps": steps, "rewards": rewards}


def qwen():
    """A tokenizer of bytes with the special tokens and, in short, the turns of Qwen."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    t = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>",
        chat_template="{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def turns(task, i):
    """What a scripted policy says of a task, a turn each."""
    right = answers[task] if i % 2 == 0 else "none"
    call = lambda name, **a: "<tool_call>" + json.dumps({"name": name, "arguments": a}) + "</tool_call>"
    return ["I look. " + call("find_product", q="shoes") + call("no_such_tool"),
            (call("recommend_product", product_ids=right) if right else "") + call("terminate", status="success" if right else "failure")]


def verl():
    """verl's own agent loop class, its builder of tokens and its registry; only the engine that samples is a script."""
    from types import SimpleNamespace

    from omegaconf import OmegaConf
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap, _agent_loop_registry
    from verl.workers.rollout.replica import TokenOutput

    from agon.verl_loop import ArenaLoop, rows

    assert _agent_loop_registry["agon"]["_target_"] == "agon.verl_loop.ArenaLoop"
    tok = qwen()

    async def play():
        rewards = []
        for i, row in enumerate(rows(url)[:EPISODES]):
            said = turns(row["task"], i)
            sampled = []

            async def generate(request_id, prompt_ids, sampling_params):
                ids = tok(said[len(sampled)] + "<|im_end|>", add_special_tokens=False)["input_ids"]
                sampled.append(ids)
                return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))

            config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"prompt_length": 8192, "response_length": 65536}}})
            loop = ArenaLoop(trainer_config=DictConfigWrap(config), server_manager=SimpleNamespace(generate=generate), tokenizer=tok, processor=None, dataset_cls=None,
                             data_config=DictConfigWrap(OmegaConf.create({})), url=url)
            out = await loop.run({}, raw_prompt=row["prompt"], task=row["task"], extra_info=row["extra_info"])
            assert len(out.response_ids) == len(out.response_mask) == len(out.response_logprobs), out
            marked = [t for t, m in zip(out.response_ids, out.response_mask) if m]
            assert marked == [t for ids in sampled for t in ids], "the marks are not on what was sampled"
            assert 0 in out.response_mask and out.as_dict()["responses"].shape[0] == len(out.response_ids)
            rewards.append(out.reward_score)
        return rewards

    return {"rewards": asyncio.run(play())}


def generator():
    """SkyRL's own generator plays the environment; only the engine that samples is a script."""
    from skyrl.train.config import GeneratorConfig, SkyRLGymConfig
    from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

    from agon import skyrl_env

    skyrl_env.register(url)
    tok, rows = qwen(), skyrl_env.rows(url)[:EPISODES]
    asked = {r["prompt"][-1]["content"]: (i, r["task"]) for i, r in enumerate(rows)}

    class Engine:
        model_name = "scripted"

        async def generate(self, batch, model=None):
            said = []
            for ids in batch["prompt_token_ids"]:
                text = tok.decode(ids)
                i, task = next(v for k, v in asked.items() if k in text)
                said.append(turns(task, i)[text.count("<|im_start|>assistant") - 1])
            ids = [tok(s + "<|im_end|>", add_special_tokens=False)["input_ids"] for s in said]
            return {"responses": said, "response_ids": ids, "stop_reasons": ["stop"] * len(said), "response_logprobs": [[-0.5] * len(t) for t in ids],
                    "prompt_logprobs": None, "rollout_expert_indices": None, "rollout_sample_support": None}

        async def finish_session(self, *_, **__):
            pass

    config = GeneratorConfig()
    config.max_turns, config.batched, config.use_conversation_multi_turn, config.max_input_length = 6, False, True, 65536
    out = asyncio.run(SkyRLGymGenerator(config, SkyRLGymConfig(), Engine(), tok, "scripted").generate(
        {"prompts": [r["prompt"] for r in rows], "env_classes": ["agon"] * len(rows), "env_extras": [{"task": r["task"]} for r in rows],
         "sampling_params": {"max_generate_length": 8192, "logprobs": 1}, "trajectory_ids": None, "batch_metadata": None}))
    for ids, mask, logp in zip(out["response_ids"], out["loss_masks"], out["rollout_logprobs"]):
        assert len(ids) == len(mask) == len(logp) and 0 in mask and 1 in mask
    return {"rewards": [sum(r) if isinstance(r, list) else r for r in out["rewards"]]}


print(json.dumps({"verifiers": verifiers, "skyrl": skyrl, "generator": generator, "trl": trl, "verl": verl}[what]()))
