"""Clients that are packages for Node."""

import shutil
from pathlib import Path

import pytest

from tests.clients.client_environment import node_environment
from tests.clients.conftest import Report
from tests.clients.served_prism import ServedPrism

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("node") is None or shutil.which("npm") is None, reason="node or npm is missing"),
]

ANSWER = "The capital of France is Paris."


def test_the_openai_package_works_in_node(server: ServedPrism, folder: Path, report: Report) -> None:
    seen = node_environment(folder, server, ["openai"]).run_script("node", "openai_node.mjs")
    report(seen)

    assert seen["chat"] == ANSWER


def test_the_openai_package_works_in_a_page_that_was_let_in(server: ServedPrism, folder: Path, report: Report) -> None:
    seen = node_environment(folder, server, ["openai", "happy-dom"]).run_script("node", "openai_page.mjs")
    report(seen)

    assert seen["answer"] == ANSWER
