"""Many cases in one test: all are tried, and the failure names each that is wrong."""

import functools
import inspect

import pytest


def each(names, cases, ids=str):
    """Like pytest.mark.parametrize, but one test that goes through all cases and lists those that fail.

    Each case has a `tmp_path` and a `monkeypatch` of its own, where it asks for them; other fixtures are shared.
    """
    names = [names] if isinstance(names, str) and "," not in names else names
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(cases)

    def decorate(test):
        @functools.wraps(test)
        def looped(**fixtures):
            assert cases, "there is no case to try"
            failed = []
            for number, case in enumerate(cases):
                values = (case,) if len(names) == 1 else case
                try:
                    with pytest.MonkeyPatch.context() as own:
                        test(**dict(zip(names, values, strict=True)), **_anew(fixtures, own, number))
                except (Exception, pytest.fail.Exception) as error:
                    named = ids(case) if callable(ids) else repr(case)
                    failed.append(f"{named[:300]}: {type(error).__name__}: {str(error)[:5000]}")
            assert not failed, f"{len(failed)} of {len(cases)} cases fail\n" + "\n".join(failed)

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        looped.__signature__ = signature.replace(parameters=left)
        del looped.__wrapped__
        return looped

    return decorate


def _anew(fixtures, monkeypatch, number):
    """What a case may change, as nobody changed it: its own monkeypatch and its own empty folder."""
    anew = dict(fixtures)
    if "monkeypatch" in anew:
        anew["monkeypatch"] = monkeypatch
    if "tmp_path" in anew:
        anew["tmp_path"] = anew["tmp_path"] / str(number)
        anew["tmp_path"].mkdir()
    return anew
