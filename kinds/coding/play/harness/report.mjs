// Reports each test of node's runner as a line of JSON: where it stands, what came of it, and whether an assertion failed.
export default async function* report(source) {
  const path = [];
  for await (const { type, data } of source) {
    if (type === 'test:start') {
      path.length = data.nesting;
      path.push(data.name);
    } else if (type === 'test:pass' || type === 'test:fail') {
      path.length = Math.min(path.length, data.nesting);
      const row = { path: [...path, data.name], pass: type === 'test:pass', suite: data.details?.type === 'suite' };
      if (data.skip !== undefined || data.todo !== undefined) row.skipped = true;
      let error = data.details?.error;
      row.kind = error?.failureType;
      if (error?.cause && typeof error.cause === 'object') error = error.cause;
      if (error) {
        row.asserted = error.code === 'ERR_ASSERTION' || error.name === 'AssertionError';
        row.why = String(error.message ?? error).slice(0, 600);
        const at = String(error.stack ?? '').split('\n').find((l) => data.file && l.includes(data.file + ':'));
        row.line = Number(at?.split(data.file + ':')[1].split(':')[0] ?? 0);
      }
      yield JSON.stringify(row) + '\n';
    }
  }
}
