from pathlib import Path


def test_hello():
    path = Path("/app/hello.txt")
    assert path.is_file() and not path.is_symlink()
    assert path.read_text().strip() == "Hello, world!"
