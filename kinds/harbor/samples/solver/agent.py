"""A classic solver: it knows three forms of instruction and asks no model."""
import collections
import csv
import json
import re


def agent_main(input):
    text = input["instruction"]
    named = re.findall(r"`([^`]+)`", text)
    if m := re.search(r"Write exactly `([^`]+)` to `([^`]+)`", text):
        with open(m[2], "w") as f:
            f.write(m[1] + "\n")
    elif "distinct words" in text:
        with open(named[0]) as f:
            count = len(set(f.read().lower().split()))
        with open(named[1], "w") as f:
            f.write("%d\n" % count)
    elif named and named[0].endswith(".csv"):
        totals = collections.Counter()
        with open(named[0]) as f:
            for row in csv.DictReader(f):
                totals[row["region"]] += int(row["amount"])
        with open("totals.json", "w") as f:
            json.dump(totals, f)
    else:
        print("no form of instruction that this agent knows")
