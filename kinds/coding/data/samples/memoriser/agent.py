"""A memoriser: it reads no repository, and knows the published answer to one task by the task's statement.

It solves that task. A canary (set canaries) has the same statement and other names in its tree: there it gives the same answer, whose names
nothing shows, and that tells what it is. Then all that it solved is worth nothing. Do not enter it: it shows what becomes of it.
"""
import hashlib

KNOWN = {
    "27a282dbaa6255d5e53c0e43a48fd5a25ac1a1701a2d6edbff7c1e4348496f0b": """\
diff --git a/lru/cache.py b/lru/cache.py
index 215d279..14e3bbc 100644
--- a/lru/cache.py
+++ b/lru/cache.py
@@ -61,7 +61,7 @@ class LRUCache:
         return [node.key for node in self._order]
 
     def _shrink(self):
-        while len(self._index) >= self.capacity:
+        while len(self._index) > self.capacity:
             node = self._order.last()
             self._order.unlink(node)
             del self._index[node.key]
""",
}


def agent_main(input):
    statement = input["problem_statement"].strip().encode()
    return KNOWN.get(hashlib.sha256(statement).hexdigest(), "")
