"""Steps 8 and 9: what each chunk does to the reply, and the next context. The corpus' roles and contexts are the book's own."""

import json
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))["refined"]
ROLE = {"c": "certain", "n": "necessary", "u": "unnecessary"}
ROLES, REFINED = "eqs. 8 to 10", "section 5.2, pruning and refilling"
COSINES = np.array(
    [
        [1.0, 0.1, 0.2, 0.3, 0.8, 0.7],
        [0.1, 1.0, 0.6, 0.2, 0.5, 0.4],
        [0.2, 0.6, 1.0, 0.1, 0.9, 0.3],
        [0.3, 0.2, 0.1, 1.0, 0.4, 0.6],
        [0.8, 0.5, 0.9, 0.4, 1.0, 0.2],
        [0.7, 0.4, 0.3, 0.6, 0.2, 1.0],
    ]
)


def questions(name):
    return json.loads((HERE.parent / "data" / f"{name}.json").read_text(encoding="utf-8"))["questions"]


def links_of(row):
    """Links in which reply 0 has this row; the others all agree with each other."""
    links = np.ones((len(row), len(row)))
    links[0], links[:, 0] = row, row
    return links


def test_roles_by_hand():
    n, c, u = "necessary", "certain", "unnecessary"
    expect(
        adapters.roles(links_of([1, 0, 1, 1, 0]), [0, None, None, 1]),
        [n, c, c, u],
        asked="roles, where chunks 1 and 4 in other words move the reply, and the reply agrees without 4 but not without 1",
        equation=ROLES,
        mistakes={
            "necessary and unnecessary are exchanged: without a necessary chunk the reply is another one": [u, c, c, n],
            "the chunks that move the reply came out certain: it is the others that are": [c, u, u, c],
            "one off: chunk i has reply i, and reply 0 belongs to no chunk": [c, u, c, c],
            "reply 0 has a role too: there are k chunks, and k + 1 replies": [c, n, c, c, u],
            "all that is uncertain came out necessary: look at the reply without the chunk": [n, c, c, n],
            "all that is uncertain came out unnecessary: look at the reply without the chunk": [u, c, c, u],
        },
    )


def test_roles_asks_about_reply_0_alone():
    n, c, u = "necessary", "certain", "unnecessary"
    links = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 0], [1, 0, 0, 1.0]])
    expect(
        adapters.roles(links, [0, None, None]),
        [n, c, c],
        asked="roles, where replies 2 and 3 agree with reply 0, and not with each other",
        equation=f"{ROLES}; chunk i is certain if w_i0 = 1",
        mistakes={
            "a reply had to agree with all others; eq. 8 asks about reply 0 alone": [n, u, u],
            "each reply was compared with the one before it; eq. 8 asks about reply 0 alone": [n, c, u],
            "it was enough to agree with some other reply; eq. 8 asks about reply 0 alone": [c, c, c],
            "one off: chunk i has reply i, and reply 0 belongs to no chunk": [c, u, c],
        },
    )


def test_roles_of_half_links():
    expect(
        adapters.roles(links_of([1, 0.5, 0.5]), [0, 1]),
        ["necessary", "unnecessary"],
        asked="roles, where both replies agree with reply 0 one way only",
        equation=f"{ROLES}; certain is a link of 1",
        mistakes={
            "a link of 0.5 was called certain; only 1 is": ["certain", "certain"],
            "necessary and unnecessary are exchanged": ["unnecessary", "necessary"],
        },
    )


def test_roles_of_half_an_agreement_without():
    expect(
        adapters.roles(links_of([1, 0, 0, 0]), [0.5, 0, 1]),
        ["unnecessary", "necessary", "unnecessary"],
        asked="roles, where all chunks move the reply, and the agreement without them is 0.5, 0 and 1",
        equation=f"{ROLES}; necessary is an agreement of 0",
        mistakes={
            "0.5 was called necessary. That is the paper's Algorithm 3; eq. 10 says 0": [
                "necessary",
                "necessary",
                "unnecessary",
            ],
            "necessary and unnecessary are exchanged": ["necessary", "unnecessary", "necessary"],
        },
    )


def test_roles_of_the_whalers():
    first = next(question for question in questions("refine") if question["id"] == "q213")["contexts"][0]
    expect(
        adapters.roles(np.array(NUMBERS["links"]["q213"]), first["agrees_without"]),
        [ROLE[letter] for letter in NUMBERS["roles"]["q213"][0]],
        asked="roles of the first context of the survivors of the Winterthrush",
        equation=ROLES,
        mistakes={
            "necessary and unnecessary are exchanged": ["certain", "certain", "certain", "necessary", "unnecessary"],
            "all that is uncertain came out necessary: look at the reply without the chunk": [
                "certain",
                "certain",
                "certain",
                "necessary",
                "necessary",
            ],
        },
    )


def test_next_context_by_hand():
    expect(
        adapters.next_context([0, 1, 3], ["necessary", "unnecessary", "certain"], COSINES.copy(), {0, 1, 3}),
        [0, 3, 4],
        asked="next_context([0, 1, 3], [necessary, unnecessary, certain]; of 2, 4 and 5 chunk 4 is nearest to 0)",
        equation=REFINED,
        mistakes={
            "the unnecessary chunk is still there": [0, 1, 3, 4],
            "nothing came for the necessary chunk": [0, 3],
            "the nearest chunk is always the chunk itself: leave out what is in `seen`": [0, 3, 0],
            "the least like it came: the nearest has the largest cosine": [0, 3, 2],
            "the first unused chunk came, not the nearest": [0, 3, 2, 4],
            "the necessary chunk went. It stays, and one more comes": [3, 4],
            "a chunk came for the certain one too": [0, 3, 4, 5],
            "a chunk came for the certain one, and none for the necessary one": [0, 3, 5],
            "a chunk came for the unnecessary one too": [0, 3, 4, 2],
            "the new chunk stands before the old ones": [4, 0, 3],
            "the new chunk stands beside the necessary one; it comes after all that stay": [0, 4, 3],
            "uncertain chunks went, both kinds. Only unnecessary ones do": [3],
        },
    )
    for cosines, wanted, asked, likely in (
        ([[1, 0.5, 0.5], [0.5, 1, 0], [0.5, 0, 1]], [0, 1], "1 and 2 are equally near", {"the last of equally near ones": [0, 2]}),
        ([[1, -0.1], [-0.1, 1]], [0, 1], "1 is unlike it, and the only one left", {"a cosine below 0 was taken for none": [0]}),
    ):
        expect(
            adapters.next_context([0], ["necessary"], np.array(cosines, dtype=float), {0}),
            wanted,
            asked=f"next_context([0], [necessary]; {asked})",
            equation=f"{REFINED}; the first of equally near ones, however near they are",
            mistakes=likely,
        )


def test_next_context_takes_numbers_not_places():
    expect(
        adapters.next_context([5, 3, 0], ["certain", "necessary", "certain"], COSINES.copy(), {0, 3, 5}),
        [5, 3, 0, 4],
        asked="next_context([5, 3, 0], [certain, necessary, certain]; of 1, 2 and 4 chunk 4 is nearest to 3)",
        equation=f"{REFINED}; a context holds numbers of chunks",
        mistakes={
            "the place in the context was taken for the number of the chunk": [5, 3, 0, 1],
            "the place among the unused chunks was taken for the number of the chunk": [5, 3, 0, 2],
            "sorted; the chunks that stay keep their order": [0, 3, 4, 5],
        },
    )


def test_next_context_never_takes_a_chunk_twice():
    expect(
        adapters.next_context([0, 2], ["necessary", "necessary"], COSINES.copy(), {0, 2}),
        [0, 2, 4, 1],
        asked="next_context([0, 2], both necessary; chunk 4 is nearest to both, then 5 to 0 and 1 to 2)",
        equation=f"{REFINED}; what has just been added is used too",
        mistakes={
            "chunk 4 was added twice": [0, 2, 4, 4],
            "chunk 4 came once, and nothing for the second necessary chunk: take its next nearest": [0, 2, 4],
            "the later necessary chunk chose first": [0, 2, 4, 5],
            "the pair that is nearest of all chose first": [0, 2, 5, 4],
        },
    )


def test_next_context_does_not_bring_back_what_was_removed():
    expect(
        adapters.next_context([0, 1], ["necessary", "certain"], COSINES.copy(), {0, 1, 4}),
        [0, 1, 5],
        asked="next_context([0, 1], [necessary, certain], seen={0, 1, 4})",
        equation=f"{REFINED}; what has been in a context before does not come back",
        mistakes={
            "chunk 4 had been removed and came back: leave out all of `seen`, not just the context": [0, 1, 4],
        },
    )


def test_next_context_when_none_is_left():
    expect(
        adapters.next_context([1, 3], ["necessary", "certain"], COSINES.copy(), {0, 1, 2, 3, 4, 5}),
        [1, 3],
        asked="next_context([1, 3], [necessary, certain], all six chunks seen)",
        equation=f"{REFINED}; if no chunk is left, none comes",
        mistakes={
            "chunk 0 came: the argmax of a row of -inf is 0": [1, 3, 0],
            "the chunk itself came, though it was used: is `seen` looked at?": [1, 3, 1],
            "a chunk came that was used: is all of `seen` looked at?": [1, 3, 2],
            "the necessary chunk went": [3],
            "None was added": [1, 3, None],
        },
    )


def test_next_context_changes_nothing_that_comes_in():
    context, of_chunks, cosines, seen = [0, 1, 3], ["necessary", "unnecessary", "certain"], COSINES.copy(), {0, 1, 3}
    came = adapters.next_context(context, of_chunks, cosines, seen)
    expect(
        None if came is None else [str(context), str(sorted(seen)), str(np.allclose(cosines, COSINES))],
        ["[0, 1, 3]", "[0, 1, 3]", "True"],
        asked="context, seen, and whether the cosines are as before, after next_context([0, 1, 3], ...)",
        equation="the docstring, nothing that comes in is changed",
        mistakes={
            "the new chunk was put into the caller's `seen`: take a copy, set(seen)": [
                "[0, 1, 3]",
                "[0, 1, 3, 4]",
                "True",
            ],
            "the caller's context was changed in place": ["[0, 3, 4]", "[0, 1, 3]", "True"],
            "the caller's context and `seen` were changed in place": ["[0, 3, 4]", "[0, 1, 3, 4]", "True"],
            "a chunk was removed from the caller's context": ["[0, 3]", "[0, 1, 3]", "True"],
            "used chunks were struck out in the caller's cosines: take a copy": ["[0, 1, 3]", "[0, 1, 3]", "False"],
        },
    )


def test_next_context_on_the_corpus():
    followed = NUMBERS["followed"]
    expect(
        as_recorded(),
        followed["right"],
        asked=f"next_context at {followed['right']} steps of DENSE-RAG: how many come out as the book's",
        equation=REFINED,
        mistakes={
            "removed chunks came back: leave out all of `seen`, not just the context": followed["back"],
            "the place in the context was taken for the number of the chunk": followed["places"],
        },
    )


def as_recorded():
    """Of all recorded steps those that come out as recorded; None if nothing was returned."""
    count = 0
    for question in questions("refine"):
        numbers, seen = [step["numbers"] for step in question["contexts"]], set()
        of_chunks = NUMBERS["roles"].get(question["id"], [])
        for context, following, letters in zip(numbers, numbers[1:], of_chunks, strict=False):
            seen = seen | set(context)
            own = [ROLE[letter] for letter in letters]
            came = adapters.next_context(list(context), own, question["cosines"], set(seen))
            if came is None:
                return None
            count += list(came) == following
    return count
