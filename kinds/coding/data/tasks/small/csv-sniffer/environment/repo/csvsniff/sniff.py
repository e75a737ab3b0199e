"""Guessing."""

CANDIDATES = ",;\t|"


def guess_delimiter(sample, candidates=CANDIDATES):
    """The candidate found equally often in most lines; the first one when none is found.

    Ties go to the candidate found more often, then to the earlier one.
    """
    best, best_score = candidates[0], (0.0, 0)
    for candidate in candidates:
        score = _score(_counts(sample, candidate))
        if score > best_score:
            best, best_score = candidate, score
    return best


def has_header(rows):
    """Whether the first row looks like names: no numbers, while later rows have some."""
    if len(rows) < 2:
        return False
    first, rest = rows[0], rows[1:]
    if any(_is_number(cell) for cell in first):
        return False
    return any(_is_number(cell) for row in rest for cell in row)


def _counts(sample, candidate):
    """How often candidate stands in each line that is not blank."""
    return [line.count(candidate) for line in sample.splitlines() if line.strip()]


def _score(counts):
    if not counts:
        return (0.0, 0)
    usual = max(sorted(set(counts)), key=counts.count)
    if usual == 0:
        return (0.0, 0)
    return (counts.count(usual) / len(counts), usual)


def _is_number(cell):
    return cell.strip().replace(".", "", 1).replace(",", "", 1).lstrip("-").isdigit()
