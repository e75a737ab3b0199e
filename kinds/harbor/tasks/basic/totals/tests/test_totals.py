import json


def test_totals():
    want = {"north": 42, "south": 5, "east": 46}
    right = 0
    try:
        got = json.load(open("/app/totals.json"))
        right = sum(1 for region, total in want.items() if type(got.get(region)) is int and got[region] == total)
        right = 0 if set(got) - set(want) else right
    except (OSError, ValueError, AttributeError):
        pass
    # A part of the work is worth a part of the reward.
    json.dump({"reward": right / len(want)}, open("/logs/verifier/reward.json", "w"))
