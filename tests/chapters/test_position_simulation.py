"""Problems with known truth."""

from experiments.moi_position import position_simulation


def test_simulations():
    pruned = position_simulation.tried("pruned", times=3)
    assert pruned[["identified", "right", "opposite"]].mean().tolist() == [1, 1, 0]
    for kind in ("cyclic", "cyclic pruned", "pruned, too few", "pruned, equal"):
        assert not position_simulation.tried(kind, times=2)["identified"].any(), kind
    way = position_simulation.recovered(0.05, rising=True, times=2, dev=6).groupby("condition")["tau"].mean()
    assert way["pruned"] > 0.7 and way["calibrated"] > 0.7
