"""Developers' pytest set-up: only the checks that are marked as quick are collected."""

collect_ignore_glob = ["tests/*"]


def pytest_collection_modifyitems(config, items):
    items[:] = [item for item in items if item.get_closest_marker("quick")]
