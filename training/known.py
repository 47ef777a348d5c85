"""Which questions of the companion corpus do the embedded readers answer without a passage? Writes data/companion/known.csv.

    python training/known.py

Ten samples each at temperature 1; a sample is right if it is one of the accepted answers after normalisation (exact match). The reader with
the adapter is asked plainly, the one without it after three worked examples.
"""

import csv

from rag_utils import answers, lm, prompts
from rag_utils.corpora.companion import COMPANION
from rag_utils.data import Question, load

READERS = {"embedded": "closed_plain", "embedded-base": "closed_examples"}  # profile -> prompt
SAMPLES, NEW_TOKENS, SEED = 10, 16, 0


def right_of_ten(reader: lm.LanguageModel, questions: list[Question], prompt: prompts.Prompt) -> list[int]:
    """Per question how many of ten samples are exactly right."""
    texts = [prompts.prompt_text(reader, prompt, question) for question in questions]
    drawn = reader.generate(texts, n=SAMPLES, temperature=1.0, max_new_tokens=NEW_TOKENS, seed=SEED)
    return [
        int(sum(answers.exact_match(sample.text, question.answers) for sample in samples))
        for question, samples in zip(questions, drawn, strict=True)
    ]


def main() -> None:
    questions = load("companion")
    rows = []
    for profile, name in READERS.items():
        reader = lm.load(profile, mode="fresh")
        shares = right_of_ten(reader, questions, prompts.load(name))
        rows += [(question.id, profile, right) for question, right in zip(questions, shares, strict=True)]
    with (COMPANION / "known.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("id", "reader", "right_of_ten"))
        writer.writerows(sorted(rows))


if __name__ == "__main__":
    main()
