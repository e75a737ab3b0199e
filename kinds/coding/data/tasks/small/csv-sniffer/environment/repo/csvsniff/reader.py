"""A reader for one dialect at a time."""

QUOTE = '"'


def parse(text, delimiter=","):
    """List of rows. Quoted fields may hold delimiters, line ends and doubled quotes."""
    rows, row, field = [], [], []
    quoted = False
    i = 0
    while i < len(text):
        ch = text[i]
        if quoted:
            if ch == QUOTE and text[i + 1:i + 2] == QUOTE:
                field.append(QUOTE)
                i += 1
            elif ch == QUOTE:
                quoted = False
            else:
                field.append(ch)
        elif ch == QUOTE:
            quoted = True
        elif ch == delimiter:
            row.append("".join(field))
            field = []
        elif ch in "\r\n":
            if ch == "\r" and text[i + 1:i + 2] == "\n":
                i += 1
            row.append("".join(field))
            rows.append(row)
            row, field = [], []
        else:
            field.append(ch)
        i += 1
    if field or row:
        row.append("".join(field))
        rows.append(row)
    return rows
