"""Profiles: by name, and the folder of a user's own weights by its path."""

from pathlib import Path

import pytest
import tiny

from rag_utils import lm
from rag_utils.engine import profiles, recordings, weights
from rag_utils.page import chapters

PLACES = ("/", "./", "../", "~/")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(recordings, "TRACKED", tmp_path / "tracked")
    monkeypatch.setenv("RAG_COMPANION_CACHE", str(tmp_path / "cache"))
    return tiny.llama(tmp_path / "mine").reader


def test_a_folder_reads_as_its_weights_do_and_is_named_by_its_path(folder, monkeypatch, tmp_path):
    profile = profiles.get(folder, dtype="bfloat16")
    assert (profile.name, profile.reader, profile.task, profile.dtype) == (folder, folder, "causal", "bfloat16")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in ("mine", "./mine", "~/mine", "../" + tmp_path.name + "/mine/", Path("mine")):
        assert profiles.get(written).reader == folder
    reader = lm.load(folder, mode="live")
    known = lm.load(profiles.Profile(name="other", reader=folder), mode="fresh")
    assert reader.fingerprint == known.fingerprint and reader.name == "mine"
    [[ours]], [[theirs]] = reader.generate(["why?"]), known.generate(["why?"])
    assert ours.text == theirs.text
    assert lm.load("./mine").generate(["why?"])[0][0].text == ours.text  # replayed


def test_an_encoder_decoder_is_told_by_its_configuration(tmp_path):
    assert profiles.get(tiny.t5(tmp_path / "t5").reader).task == "seq2seq"


def test_a_wrong_folder_is_told_by_what_it_lacks_and_never_sent_to_the_hub(folder, tmp_path):
    for place in PLACES:
        with pytest.raises(ValueError, match=r"the folder .*no-such-place is not there") as caught:
            profiles.get(f"{place}no-such-place")
        assert "hub" not in str(caught.value) and "download" not in str(caught.value)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no config\.json and no \*\.safetensors"):
        profiles.get(str(tmp_path / "empty"))
    Path(folder, "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"mine holds no \*\.safetensors"):
        lm.load(folder)
    Path(folder, "model.safetensors").touch()
    Path(folder, "config.json").write_text("{")
    with pytest.raises(weights.WeightsError, match=r"the model in .*mine cannot be read"):
        lm.load(folder)
    with pytest.raises(ValueError, match="unknown profile 'embeded'; did you mean 'embedded'"):
        profiles.get("embeded")
    with pytest.raises(ValueError, match="unknown profile None"):
        profiles.get(None)


def test_a_name_is_a_profile_even_where_a_folder_is_called_so(tmp_path, monkeypatch):
    (tmp_path / "laptop").mkdir()
    monkeypatch.chdir(tmp_path)
    assert profiles.get("laptop").reader == "Qwen/Qwen2.5-1.5B-Instruct"
    with pytest.raises(ValueError, match="holds no"):
        profiles.get("./laptop")


def test_a_chapter_takes_a_folder_wherever_its_kernel_works_and_refuses_a_wrong_one(folder, tmp_path, monkeypatch):
    chapter = "03_erag_kendall"
    monkeypatch.chdir(tmp_path)
    assert chapters.checked(chapter, {"profile": "./mine", "weaker": "mine"}) == {"profile": folder, "weaker": folder}
    with pytest.raises(ValueError, match=r"parameter profile of 03_erag_kendall: the folder .*/mien is not there;"):
        chapters.checked(chapter, {"profile": "./mien"})
    Path(folder, "config.json").unlink()
    with pytest.raises(ValueError, match=r"parameter profile of 03_erag_kendall: the folder .* holds no config\.json"):
        chapters.checked(chapter, {"profile": folder})
