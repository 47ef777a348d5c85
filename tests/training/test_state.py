"""What a training run leaves on disk: read back to the same bits, refused where it is another run's, and no half-written file."""

import dataclasses
import itertools

import pytest
import state
import torch


@dataclasses.dataclass(frozen=True)
class Recipe:
    rate: float


def small(seed=0):
    torch.manual_seed(seed)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_what_was_saved_is_loaded_with_its_groups_history_and_optimiser(tmp_path):
    path = tmp_path / "deep" / "state.safetensors"
    model, optimizer = small()
    assert state.load(path, "run", optimizer) is None
    best = {"a.b.c": torch.tensor([1.5])}
    state.save(path, "run", optimizer, {"model": model.state_dict(), "best": best}, [0.25, {"epoch": 1}])
    other, again = small(seed=1)
    groups, history = state.load(path, "run", again)
    assert history == [0.25, {"epoch": 1}] and set(groups) == {"model", "best"}
    assert torch.equal(groups["best"]["a.b.c"], best["a.b.c"])
    other.load_state_dict(groups["model"])
    for one, same in zip(optimizer.state_dict()["state"].values(), again.state_dict()["state"].values(), strict=True):
        assert all(torch.equal(one[name], same[name]) for name in one) and len(one) == 3  # step and two moments
    for net, step in ((model, optimizer), (other, again)):
        net(torch.arange(3.0)[None]).sum().backward()
        step.step()
    assert torch.equal(model.weight, other.weight)  # the next step is the same
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_another_run_and_a_damaged_file_are_refused_and_named(tmp_path):
    path, (model, optimizer) = tmp_path / "state.safetensors", small()
    state.save(path, "one", optimizer, {"model": model.state_dict()}, [])
    with pytest.raises(ValueError, match=r"state\.safetensors belongs to a run with another model, examples"):
        state.load(path, "two", optimizer)
    whole = path.read_bytes()
    for damaged in (whole[:-10], whole[:20], b""):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"state\.safetensors is damaged.*delete it"):
            state.load(path, "one", optimizer)


def test_a_run_is_known_by_all_that_it_is_made_with(tmp_path):
    weights = {"w": torch.tensor([1.0])}
    same = [state.digest(Recipe(0.1), [("a", 1)], tmp_path, weights=weights) for _ in range(2)]
    assert same[0] == same[1]
    others = [
        state.digest(Recipe(0.2), [("a", 1)], tmp_path, weights=weights),
        state.digest(Recipe(0.1), [("a", 2)], tmp_path, weights=weights),
        state.digest(Recipe(0.1), [("a", 1)], tmp_path, weights={"w": torch.tensor([2.0])}),
        state.digest(Recipe(0.1), [("a", 1)], tmp_path),
    ]
    assert len({same[0], *others}) == 5


def test_every_epoch_shows_every_example_once_in_an_order_of_its_own():
    plan = state.steps(7, epochs=4, batch=3, seed=0)
    assert [len(step) for step in plan] == [3, 3, 1] * 4
    epochs = [list(itertools.chain(*plan[start : start + 3])) for start in range(0, 12, 3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs) and len({tuple(epoch) for epoch in epochs}) > 1
    assert plan == state.steps(7, epochs=4, batch=3, seed=0) != state.steps(7, epochs=4, batch=3, seed=1)
