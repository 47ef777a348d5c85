"""HotpotQA's and MuSiQue's rows out of the prompts of ircot, which show the same questions among other distractors each time.

A prompt is a block a question: `# METADATA: {"qid": ...}`, paragraphs under their titles, `Q: ...` and `A: ...`.
"""

import json
import re

_BLOCK = re.compile(r'# METADATA: \{"qid": "(.+?)"\}\n(.+?)\n\nQ: (.+?)\nA: (.+?)(?:\n|\Z)', re.DOTALL)
_PARAGRAPH = re.compile(r"Wikipedia Title: ([^\n]+)\n(.+?)(?=\n\nWikipedia Title: |\Z)", re.DOTALL)


def rows(prompts: list[str]) -> str:
    """JSON lines of the first prompt's questions and paragraphs; a paragraph is supporting if no prompt goes without its title.

    In two of MuSiQue's questions a distractor has the title of a needed paragraph, and counts as one.
    """
    first, *others = [{name: (_PARAGRAPH.findall(body), *said) for name, body, *said in _BLOCK.findall(text)} for text in prompts]
    lines = []
    for name, (paragraphs, question, answer) in first.items():
        everywhere = {*dict(paragraphs)}.intersection(*(dict(other[name][0]) for other in others if name in other))
        told = [{"title": title, "text": text, "is_supporting": title in everywhere} for title, text in paragraphs]
        lines.append(json.dumps({"id": name, "question": question, "answers": [answer], "paragraphs": told}, ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines)
