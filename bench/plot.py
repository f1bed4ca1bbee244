"""Plots a run as SVG: one group of bars for each section; each bar is a fraction of the section's limit."""

import html

import figures

SHOWN = [
    "llama-save",
    "recycled",
    "llama-cold",
    "llama-warm",
    "async",
    "one",
    "adam-save",
    "adam-cold",
    "memory-save",
    "memory-load",
    "ranks-save",
    "ranks-load",
    "small-20000-save",
    "small-20000-warm",
]
COLOURS = {"ckpt": "#1f6fb4", "raw": "#9aa3ab", "peer": "#d08a3e"}
WIDTH, LEFT, RIGHT, BAR, GAP, MOST = 900, 330, 70, 15, 5, 1.6


def bars_of(section):
    """(name, kind, fraction), the fastest first."""
    rows = [(row["name"], row["kind"], figures.fraction(section, row)) for row in section["rows"] if row["samples"]]
    return sorted((row for row in rows if row[2]), key=lambda row: -row[2])


def text(x, y, content, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{html.escape(content)}</text>'


def bar(name, kind, fraction, y, scale):
    width = min(fraction, MOST) * scale
    return [
        text(LEFT - 8, y + BAR - 4, name, 'text-anchor="end"'),
        f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[kind]}"/>',
        text(LEFT + width + 4, y + BAR - 4, f"{fraction:.2f}", 'fill="#555"'),
    ]


def legend(y):
    names = {"ckpt": "ckpt, every byte verified", "raw": "plain programs", "peer": "other libraries"}
    parts = []
    for at, (kind, name) in enumerate(names.items()):
        x = LEFT + at * 190
        parts += [f'<rect x="{x}" y="{y}" width="12" height="12" fill="{COLOURS[kind]}"/>', text(x + 17, y + 10, name)]
    return parts


def draw(run):
    scale = (WIDTH - LEFT - RIGHT) / MOST
    one = LEFT + scale
    machine = run["machine"]
    title = f"Fraction of the limit of the same run: {machine['cpu']}, {machine['cores']} cores, {machine['date']}"
    parts = [text(16, 24, title, 'font-size="15" font-weight="bold"'), *legend(38)]
    y = 66
    for section in (figures.find_section(run, key) for key in SHOWN):
        bars = bars_of(section) if section else []
        if not bars:
            continue
        parts.append(text(16, y + 12, f"{section['title']} (1.00 = {section['limit']})", 'font-weight="bold"'))
        y += 22
        top = y
        for name, kind, fraction in bars:
            parts += bar(name, kind, fraction, y, scale)
            y += BAR + GAP
        parts.append(
            f'<line x1="{one:.1f}" y1="{top - 3}" x2="{one:.1f}" y2="{y - 2}" stroke="#333" stroke-dasharray="3 2"/>'
        )
        y += 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" viewBox="0 0 {WIDTH} {y + 10}" '
        'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )
