"""The report of a training, and the card of the model that came of it."""

from __future__ import annotations

from typing import Any


def percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def markdown(r: dict[str, Any]) -> str:
    """report.md of `agon distill`."""
    out = [f"# {r['method']} on {r['arena'] or 'tasks'}", "", f"{r['kept']} of {r['rows']} plays were trained on, {r['steps']} steps, last loss {r['loss']}. "
           f"{r['contaminated']} plays of held-out tasks were left out of training.", ""]
    if r["before"]:
        out += ["| held-out tasks: " + str(r["held_out"]) + " | solved | 95 % |", "|---|---|---|"]
        for name in ("before", "after"):
            f = r[name]
            out.append(f"| {name} | {f['solved']} ({percent(f['rate'])}) | {percent(f['interval'][0])} to {percent(f['interval'][1])} |")
        g = r["gain"]
        out += ["", f"Gain {100 * g[0]:.1f} points (95 %: {100 * g[1]:.1f} to {100 * g[2]:.1f}), paired, exact p = {r['p']:.3g}.", "", plot([("before", r["before"]["rate"], r["before"]["interval"]), ("after", r["after"]["rate"], r["after"]["interval"])]), "",
                "## What the models did to be paid", "", "| | before | after |", "|---|---|---|"]
        for k in r["before"]["audit"]:
            out.append(f"| {k.replace('_', ' ')} | {r['before']['audit'][k]} | {r['after']['audit'][k]} |")
        out += ["", "A share of solved plays without a look, of repeated calls or of one answer for many tasks that grows is what a scorer may like and a person not: read such plays in after.jsonl."]
    else:
        out.append("There were no held-out tasks: nothing is known of what it learnt.")
    return "\n".join(out) + "\n"


def card(r: dict[str, Any], job: dict[str, Any]) -> str:
    """README.md of the model."""
    held = "It was measured on none." if not r["before"] else f"On {r['held_out']} held-out tasks the base solved {percent(r['before']['rate'])}, this model {percent(r['after']['rate'])} (paired p = {r['p']:.3g})."
    return f"""# A model trained on plays of {r['arena'] or 'tasks of an environment'}

- **Base**: {r['base']}
- **Data**: {r['kept']} plays by the method {r['method']}{' that the base itself made' if r['method'] in ('rft', 'grpo') else ' of ' + str(job['rows'])}; licences are those of the plays' corpus and of the base.
- **Measured**: {held}
- **Not measured**: anything else: other tasks, other languages, harm, how much of what the base knew is forgotten.
"""


def plot(bars: list[tuple[str, float, tuple[float, float]]]) -> str:
    """Shares with their intervals, as an SVG."""
    w, h, left = 480, 28, 90
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h * len(bars) + 24}" font-family="sans-serif" font-size="12" role="img"><rect width="100%" height="100%" fill="#fff"/>']

    def x(v: float) -> float:
        return left + v * (w - left - 60)

    for i, (name, v, (lo, hi)) in enumerate(bars):
        y = i * h + 6
        out.append(f'<text x="0" y="{y + 13}">{name}</text><rect x="{left}" y="{y}" width="{x(v) - left:.1f}" height="16" fill="#4a7dbd"/>'
                   f'<path d="M{x(lo):.1f} {y + 8}H{x(hi):.1f}" stroke="#222"/><text x="{x(hi) + 4:.1f}" y="{y + 13}">{percent(v)}</text>')
    y = h * len(bars) + 10
    out += [f'<path d="M{left} {y}H{x(1):.1f}" stroke="#888"/><text x="{left}" y="{y + 13}">0</text><text x="{x(1) - 30:.1f}" y="{y + 13}">100 %</text></svg>']
    return "".join(out)
