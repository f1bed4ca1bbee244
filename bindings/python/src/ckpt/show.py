"""Tables for people: in text, and in HTML for notebooks."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

Rows = Sequence[Sequence[str]]
SHOWN = 60  # rows of a long table


def size(count: int) -> str:
    """Bytes with a unit."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    return f"{count} B" if unit == "B" else f"{value:.3g} {unit}"


def time(unix_ms: int) -> str:
    """A time in this machine's zone."""
    return datetime.datetime.fromtimestamp(unix_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def shape(extents: Sequence[int]) -> str:
    """A shape as in "4096 × 1024"; "scalar" without dimensions."""
    return " × ".join(map(str, extents)) or "scalar"


def _shortened(rows: Rows) -> tuple[Rows, int]:
    if len(rows) <= SHOWN:
        return rows, 0
    return [*rows[:SHOWN // 2], *rows[-SHOWN // 2:]], len(rows) - SHOWN


def text_table(title: str, header: Sequence[str], rows: Rows) -> str:
    """The table in columns, under its title. Of a long one the middle is left out."""
    shown, left_out = _shortened(rows)
    widths = [max(len(row[i]) for row in [header, *shown]) for i in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *shown]]
    if left_out:
        lines.insert(1 + SHOWN // 2, f"… {left_out} more …")
    return "\n".join([title, *(f"  {line}" for line in lines)]) if rows else title


def html_table(title: str, header: Sequence[str], rows: Rows) -> str:
    """The same in HTML."""
    import html  # not before it is needed
    shown, left_out = _shortened(rows)
    lines = ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in shown]
    if left_out:
        lines.insert(SHOWN // 2, f'<td colspan="{len(header)}">… {left_out} more …</td>')
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return (f"<p>{html.escape(title)}</p>"
            + (f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""))
