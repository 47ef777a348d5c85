"""How pytest reports here: a line for what is not written yet, the words of the test for what is wrong, and never a stack."""

import check
import pytest


def pytest_configure(config):
    try:
        import adapters  # noqa: F401
    except Exception as error:
        raise pytest.UsageError(check.say(error)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.excinfo is not None and report.failed:
        report.longrepr = check.say(call.excinfo.value)
    return report


def pytest_terminal_summary(terminalreporter):
    passed, failed = (terminalreporter.stats.get(outcome, []) for outcome in ("passed", "failed"))
    terminalreporter.write_line("")
    for report in failed:
        name, words = report.nodeid.rpartition("::")[2], str(report.longrepr)
        blank = words.startswith("not written yet")
        terminalreporter.write_line(f"{name}: {words}" if blank else f"\n{name}\n{words}")
    terminalreporter.write_line(f"\n{len(passed)} of {len(passed) + len(failed)} tests pass.")
