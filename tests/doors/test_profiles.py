"""Profiles: by name, and the folder of a user's own weights by its path."""

from pathlib import Path

import pytest
import tiny
from typer.testing import CliRunner

from rag_utils import judge, lm
from rag_utils.engine import profiles, recordings, weights
from rag_utils.page import chapters
from rag_utils.score import before
from rag_utils.score.command import app
from rag_utils.score.readers import load_reader

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


# --- one's own, from a file -----------------------------------------------------------------------


@pytest.fixture
def own(folder, tmp_path, monkeypatch):
    """A function that writes the file of profiles in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(profiles.OWN, raising=False)
    return lambda text: (tmp_path / "profiles.toml").write_text(text)


def test_a_profile_of_the_file_is_loaded_by_its_name_wherever_the_work_is_done(own, tmp_path, monkeypatch):
    tiny.deberta(tmp_path / "nli")
    own('[mine]\nreader = "mine"\ndtype = "bfloat16"\nbatch_tokens = 99\njudge = "./nli"\n[hub]\nreader = "a/b"\nrevision = "v1"')
    profile = profiles.get("mine")
    assert (profile.reader, profile.judge) == (str(tmp_path / "mine"), str(tmp_path / "nli"))
    assert (profile.dtype, profile.batch_tokens, profile.revision) == ("bfloat16", 99, None)
    assert profiles.get("hub").reader == "a/b" and profiles.get("hub", revision="v2").revision == "v2"
    assert lm.load("mine", mode="fresh").fingerprint.endswith("-bfloat16")
    assert isinstance(judge.load_judge("mine"), judge.NliJudge) and before.judge_of("mine") == "mine"
    assert before.judge_of("hub") == before.judge_of("laptop") == "quick"
    assert chapters.checked("03_erag_kendall", {"profile": "mine"}) == {"profile": "mine"}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="unknown profile 'mine'"):
        profiles.get("mine")
    monkeypatch.setenv(profiles.OWN, "../profiles.toml")
    assert profiles.get("mine").reader == str(tmp_path / "elsewhere/../mine")


def test_an_encoder_decoder_of_the_file_is_told_by_its_configuration_and_a_lost_folder_is_said(own, tmp_path):
    tiny.t5(tmp_path / "t5")
    own('[five]\nreader = "./t5"\n[lost]\nreader = "./lost"')
    assert profiles.get("five").task == "seq2seq"
    with pytest.raises(ValueError, match=r"the folder .*/lost is not there"):
        profiles.get("lost")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[mine\nreader = 1", r"profiles\.toml cannot be read: .*line 1.*wanted TOML"),
        ('[laptop]\nreader = "a/b"', r"profiles\.toml: the book has a profile 'laptop' already; give yours another name"),
        ('[mine]\nreeder = "a/b"', r"unknown key of profile 'mine' of .*profiles\.toml 'reeder'; did you mean 'reader'"),
        ('[mine]\nreader = "a/b"\nname = "x"', "unknown key of profile 'mine' .* 'name'"),
        ('[mine]\nreader = "a/b"\nencoder = 3', r"profile 'mine' of .*, encoder: .*valid string; got 3"),
        ('[mine]\nreader = "a/b"\nbatch_tokens = "9"', r"profile 'mine' of .*, batch_tokens: .*valid integer; got '9'"),
        ('[mine]\nreader = "a/b"\nbatch_tokens = 0', r"batch_tokens: .*greater than 0; got 0"),
        ('[mine]\nreader = "a/b"\ndtype = "int8"', r"dtype: .*'float32', 'bfloat16' or 'float16'; got 'int8'"),
        ('[mine]\ndtype = "float32"', r"profile 'mine' .* must have one of reader and server; got neither"),
        ('[mine]\nreader = "a/b"\nserver = "http://h"', "one of reader and server; got both"),
        ('mine = "a/b"', r"profile 'mine' .* must be \[mine\] with lines such as reader = \.\.\. below it; got str"),
        ('["a/b"]\nreader = "a/b"', "profile 'a/b' .* a name is letters, digits"),
    ],
)
def test_a_wrong_file_is_told_by_what_came_and_what_was_wanted(own, text, said):
    own(text)
    for name in ("mine", "embedded"):  # nor is a wrong file passed over in silence
        with pytest.raises(ValueError, match=said):
            profiles.get(name)


def test_a_file_that_is_named_and_not_there_is_said(own, monkeypatch):
    monkeypatch.setenv(profiles.OWN, "none.toml")
    with pytest.raises(ValueError, match=r"none\.toml cannot be read: .*No such file.*leave RAG_COMPANION_PROFILES out"):
        profiles.get("mine")


def test_a_server_of_the_file_is_for_scores_only(own, monkeypatch):
    own('[far]\nserver = "http://localhost:1/v1#m"')
    with pytest.raises(weights.WeightsError, match="profile 'far' has no weights, only a server, which `rag-companion score` asks"):
        lm.load("far")
    monkeypatch.setattr("rag_utils.score.readers.Endpoint", lambda address, mode: (address, mode))
    assert load_reader("far", mode="live") == ("http://localhost:1/v1#m", "live")
    with pytest.raises(ValueError, match="adapter and dtype are the server's choice"):
        load_reader("far", dtype="float16")


def test_profiles_are_listed_and_tried(own, tmp_path):
    tiny.deberta(tmp_path / "nli")
    own('[mine]\nreader = "mine"\njudge = "nli"\nneeds = "little"\n[far]\nserver = "http://h"')
    listed = CliRunner().invoke(app, ["profiles"]).output.splitlines()
    assert listed[-2:] == [f"mine         {tmp_path / 'mine'} (float32): little", "far          http://h (a server): "]
    made = before.tried("mine")
    assert made.fingerprint == lm.load("mine", mode="fresh").fingerprint and made.loading > 0 and made.asking > 0
    assert 0.05 < made.gigabytes < 50 and not (tmp_path / "cache" / "recordings").exists()
    said = CliRunner().invoke(app, ["profiles", "--check", "mine"]).output
    assert f"fingerprint {made.fingerprint}" in said and "GB of memory" in said and f"judge {tmp_path / 'nli'}: answers" in said
    (tmp_path / "nli" / "config.json").unlink()
    with pytest.raises(weights.WeightsError, match="nli"):
        before.tried("mine")
