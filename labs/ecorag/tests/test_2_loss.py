"""Steps 4 to 6: InfoNCE, the compressor's loss, and its slope by algebra and by numbers."""

import json
import warnings
from pathlib import Path

import adapters
import numpy as np
from check import expect

HERE = Path(__file__).resolve().parent
NUMBERS = json.loads((HERE / "snapshots.json").read_text(encoding="utf-8"))["compressor_loss"]
LOG = np.log
FORM = "-log of exp(s/t) over the sum of exp(s/t) of the positive and all negatives"


def test_info_nce_by_hand():
    w = np.array([2.0, 1.0, 3.0, 4.0])
    expect(
        adapters.info_nce(LOG(2), LOG([1, 3, 4])),
        LOG(5),
        asked="info_nce(log 2, log of [1, 3, 4])",
        equation=f"eqs. 2 and 3, {FORM}: -log(2/10)",
        mistakes={
            "the positive is missing in the sum below the line; then a loss can fall below 0": LOG(4),
            "the sign: a surprise is -log p, 0 and above": -LOG(5),
            "this is the probability; take -log of it": 0.2,
            "the logarithm has base 2. A loss is in nats": np.log2(5),
            "the mean over the negatives, where eq. 2 has their sum": LOG((2 + 8 / 3) / 2),
            "only the hardest negative was counted (max for sum)": LOG(3),
            "pair by pair, then summed: eq. 2 has one sum below the line": LOG(1.5 * 2.5 * 3),
            "the loss was divided by the number of negatives": LOG(5) / 3,
            "similarities were summed without exp": -LOG(LOG(2) / LOG(w).sum()),
            "[positive] + an array adds the positive to each number: join them, [positive, *negatives]": LOG(8),
            "the number that was subtracted before exp has to be added again after the log": LOG(1.25),
        },
    )


def test_info_nce_with_a_temperature():
    expect(
        adapters.info_nce(LOG(2), LOG([1, 3]), 0.5),
        LOG(14 / 4),
        asked="info_nce(log 2, log of [1, 3], temperature=0.5)",
        equation=f"eqs. 2 and 3, {FORM}: weights 4, 1 and 9",
        mistakes={
            "the temperature was not used": LOG(3),
            "multiplied by the temperature: a low one makes differences larger, so divide": LOG(
                (2**0.5 + 1 + 3**0.5) / 2**0.5
            ),
            "only the positive was divided by the temperature": LOG(8 / 4),
            "the loss was divided by the temperature, not the similarities": 2 * LOG(3),
            "only the negatives were divided by the temperature": LOG(12 / 2),
        },
    )


def test_info_nce_of_large_similarities():
    with np.errstate(all="ignore"):
        came = [adapters.info_nce(1000.0, np.array([negative])) for negative in (999.0, 0.0)]
    near = LOG(1 + np.exp(-1))
    expect(
        None if any(each is None for each in came) else came,
        [near, 0.0],
        asked="info_nce(1000, [999]), info_nce(1000, [0])",
        equation="eqs. 2 and 3; only differences of similarities matter",
        mistakes={
            "inf/inf: exp(1000) is too large for a computer. Subtract the largest similarity before exp": [np.nan] * 2,
            "exp(1000) is inf, and the loss with it. Subtract the largest similarity before exp": [np.inf] * 2,
            "the largest negative was subtracted; the positive can be larger still": [near, np.inf],
        },
    )
    with np.errstate(all="ignore"):
        came = adapters.info_nce(1000.0, np.zeros(3))
    expect(
        came,
        0.0,
        asked="info_nce(1000, [0, 0, 0])",
        equation="eqs. 2 and 3; only differences of similarities matter",
        mistakes={"exp overflowed: the mean was subtracted. Subtract the largest similarity before exp": np.inf},
    )
    with np.errstate(all="ignore"):
        came = adapters.info_nce(1000.0, np.array([999.0]), 0.1)
    expect(
        came,
        LOG(1 + np.exp(-10.0)),
        asked="info_nce(1000, [999], temperature=0.1)",
        equation="eqs. 2 and 3; divide by the temperature first, then subtract the largest",
    )


def test_info_nce_of_a_hopeless_positive():
    with np.errstate(all="ignore"):
        came = adapters.info_nce(0.0, np.array([1000.0]))
    expect(
        came,
        1000.0,
        asked="info_nce(0, [1000])",
        equation="eqs. 2 and 3; the loss grows like the difference of the similarities",
        mistakes={
            "log of 0: work with the logarithm of the sum minus the positive, not with the quotient": np.inf,
            "the difference was cut off by something added inside the log": -LOG(1e-12),
            "exp overflowed: subtract the largest similarity before exp": np.nan,
        },
    )


def test_compressor_loss_by_hand():
    labels, one = ["distractor", "strong", "distractor", "weak", "distractor"], NUMBERS["one of each"]
    expect(
        adapters.compressor_loss([0.1, 1.2, -0.2, 0.7, 0.4], labels),
        one["right"],
        asked="compressor_loss([0.1, 1.2, -0.2, 0.7, 0.4], [distractor, strong, distractor, weak, distractor])",
        equation="eq. 4, the strong loss (0.969) plus the weak loss (0.992)",
        mistakes={
            "only the strong loss (eq. 3); the weak one is missing": one["strong"],
            "only the weak loss (eq. 2); the strong one is missing": one["weak"],
            "the weak sentence is missing among the negatives of the strong one (eq. 3 has both)": one["without weak"],
            "the strong sentence is among the negatives of the weak one. Eq. 2 has distractors only": one["both ways"],
            "the mean of the two losses; eq. 4 adds them": one["right"] / 2,
        },
        within=1e-5,
    )


def test_compressor_loss_of_several():
    scores = [1.0, 0.5, 0.4, -0.3, 0.2, 3.0]
    labels = ["strong", "strong", "weak", "weak", "distractor", "undefined"]
    numbers = NUMBERS["several"]
    expect(
        adapters.compressor_loss(scores, labels),
        numbers["right"],
        asked="compressor_loss(two strong, two weak, a distractor, and an undefined sentence with the score 3)",
        equation="eq. 4, with the mean over several strong and over several weak sentences",
        mistakes={
            "summed over the strong and over the weak sentences: take the mean of each": 2 * numbers["right"],
            "the mean of all four losses together: take that of each kind, then add": numbers["right"] / 2,
            "the undefined sentence is among the negatives; it counts nowhere": numbers["undefined too"],
            "the other strong sentence is among the negatives of a strong one": numbers["other strong too"],
            "the others of the same label are among the negatives": numbers["same label too"],
            "only the first strong and the first weak sentence were looked at": numbers["first"],
            "strong sentences were pooled above the line. Each is a positive of its own": numbers["pooled"],
            "the largest loss of each kind (max for mean)": numbers["largest"],
        },
        within=1e-5,
    )


def test_compressor_loss_without_weak_sentences():
    with np.errstate(all="ignore"):
        came = adapters.compressor_loss([1.0, 0.5, 0.2], ["strong", "distractor", "undefined"])
    expect(
        came,
        LOG(1 + np.exp(-0.5)),
        asked="compressor_loss([1.0, 0.5, 0.2], [strong, distractor, undefined])",
        equation="eq. 4; a part without positives adds nothing",
        mistakes={
            "the mean of no losses is NaN: look whether there are any": np.nan,
            "0: one part is missing, and the other was dropped with it": 0.0,
            "undefined was taken for weak": NUMBERS["undefined as weak"],
        },
    )
    for scores, labels, wanted in (
        ([1.0, 2.0, 3.0], ["undefined"] * 3, 0.0),
        ([1.0, 0.5], ["weak", "distractor"], LOG(1 + np.exp(-0.5))),
        ([1.0, 2.0], ["strong", "weak"], LOG(1 + np.exp(1.0))),
    ):
        with warnings.catch_warnings(action="ignore"):
            came = adapters.compressor_loss(scores, labels)
        expect(
            came,
            wanted,
            asked=f"compressor_loss({scores}, [{', '.join(labels)}])",
            equation="eq. 4; a part without positives, or without negatives, adds nothing",
            mistakes={"the mean of no losses is NaN: look whether there are any": np.nan},
        )


def test_compressor_loss_with_a_temperature():
    with np.errstate(all="ignore"):
        came = adapters.compressor_loss([1.0, 0.5], ["strong", "distractor"], 0.1)
    expect(
        came,
        LOG(1 + np.exp(-5.0)),
        asked="compressor_loss([1.0, 0.5], [strong, distractor], temperature=0.1)",
        equation="eq. 4; the temperature goes into both losses",
        mistakes={
            "the temperature was not handed to info_nce": LOG(1 + np.exp(-0.5)),
            "the mean of no weak losses is NaN: add a part only where there are losses": np.nan,
        },
    )
    labels, part = ["strong", "weak", "distractor"], LOG(1 + np.exp(-5.0) + np.exp(-8.0))
    expect(
        adapters.compressor_loss([1.0, 0.5, 0.2], labels, 0.1),
        part + LOG(1 + np.exp(-3.0)),
        asked="compressor_loss([1.0, 0.5, 0.2], [strong, weak, distractor], temperature=0.1)",
        equation="eq. 4; the temperature goes into both losses",
        mistakes={"the weak loss had the temperature 1": part + LOG(1 + np.exp(-0.3))},
    )


def cubic(x):
    return float(x[0] ** 3 + 5 * x[1] ** 2)


def test_numerical_gradient_by_hand():
    expect(
        adapters.numerical_gradient(cubic, np.array([1.0, 2.0]), 0.1),
        [3.01, 20.0],
        asked="numerical_gradient(x0^3 + 5 x1^2, x = array [1.0, 2.0], h=0.1)",
        equation="the definition of a derivative, (f(x + h) - f(x - h)) / 2h",
        mistakes={
            "a forward difference, (f(x + h) - f(x)) / h: its error is of the order of h, the central one's of h squared": [
                3.31,
                20.5,
            ],
            "a backward difference, (f(x) - f(x - h)) / h: its error is of the order of h": [2.71, 19.5],
            "divided by h: from x - h to x + h it is 2h": [6.02, 40.0],
            "all coordinates were moved at once. One at a time": [23.01, 23.01],
            "not divided by 2h": [0.602, 4.0],
            "/ 2 * h multiplies by h: write / (2 * h)": [0.0301, 0.2],
            "f(x + h) and f(x - h) were the same: is it one array? Move a copy": [0.0, 0.0],
            "h was not used": [3.0, 20.0],
            "the sign: f(x + h) comes first": [-3.01, -20.0],
        },
        within=1e-7,
    )


def test_numerical_gradient_leaves_x_alone():
    x = np.array([1.0, 2.0])
    came = adapters.numerical_gradient(cubic, x, 0.1)
    expect(
        None if came is None else x.copy(),
        [1.0, 2.0],
        asked="x after numerical_gradient(f, x = array [1.0, 2.0], h=0.1)",
        equation="the docstring; whoever called needs x again",
        mistakes={
            "x was moved up in place and not put back: work on a copy": [1.1, 2.1],
            "x was moved down in place and not put back: work on a copy": [0.9, 1.9],
        },
    )


def test_gradient_by_hand():
    expect(
        adapters.gradient(LOG(2), LOG([1, 3, 4])),
        [-0.8, 0.1, 0.3, 0.4],
        asked="gradient(log 2, log of [1, 3, 4])",
        equation="eqs. 2 and 3 differentiated, the probabilities 0.2, 0.1, 0.3, 0.4, minus 1 at the positive",
        mistakes={
            "the sign: a higher similarity of the positive makes the loss smaller": [0.8, -0.1, -0.3, -0.4],
            "these are the probabilities; 1 goes off at the positive": [0.2, 0.1, 0.3, 0.4],
            "1 was taken from all. Only the positive's slope has it": [-0.8, -0.9, -0.7, -0.6],
            "the slope of the positive comes first": [0.1, 0.3, 0.4, -0.8],
            "the positive's probability is missing: its slope is p - 1": [-1.0, 0.1, 0.3, 0.4],
            "the positive is missing in the sum of the weights": [-0.75, 0.125, 0.375, 0.5],
            "the shares are of the negatives alone; the positive has one too": [-1.0, 0.125, 0.375, 0.5],
        },
    )


def test_gradient_with_a_temperature():
    p = np.array([4, 1, 9]) / 14 - [1, 0, 0]
    expect(
        adapters.gradient(LOG(2), LOG([1, 3]), 0.5),
        2 * p,
        asked="gradient(log 2, log of [1, 3], temperature=0.5)",
        equation="eqs. 2 and 3 differentiated; the chain rule brings 1 / temperature",
        mistakes={
            "the chain rule's 1 / temperature is missing": p,
            "multiplied by the temperature: the chain rule divides": p / 2,
            "the temperature is missing in the weights": 2 * (np.array([2, 1, 3]) / 6 - [1, 0, 0]),
            "1 goes off before the division by the temperature, not after it": 2 * np.array([4, 1, 9]) / 14 - [1, 0, 0],
            "the temperature was not used at all": np.array([2, 1, 3]) / 6 - [1, 0, 0],
        },
    )


def test_gradient_of_large_similarities():
    with np.errstate(all="ignore"):
        came = adapters.gradient(1000.0, np.array([999.0]))
    p = 1 / (1 + np.exp(1))
    expect(
        came,
        [-p, p],
        asked="gradient(1000, [999])",
        equation="eqs. 2 and 3 differentiated; only differences of similarities matter",
        mistakes={"inf/inf in the weights: subtract the largest similarity before exp here too": [np.nan, np.nan]},
    )
    for positive, negatives, wanted in ((1000.0, [0.0, 0.0, 0.0], [0.0] * 4), (0.0, [1000.0], [-1.0, 1.0])):
        with np.errstate(all="ignore"):
            came = adapters.gradient(positive, np.array(negatives))
        expect(
            came,
            wanted,
            asked=f"gradient({positive:.0f}, {negatives})",
            equation="eqs. 2 and 3 differentiated; subtract the largest similarity, not the first and not the mean",
        )
