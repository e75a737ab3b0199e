// Polkadot.js reads the embedded ledger and lands extrinsics on it.
import { createRequire } from 'node:module';
const [, , url, modules] = process.argv;
const require = createRequire(modules + '/');
const { ApiPromise, WsProvider, Keyring } = require('@polkadot/api');
const api = await ApiPromise.create({ provider: new WsProvider(url), noInitWarn: true, throwOnConnect: true });
const out = { chain: (await api.rpc.system.chain()).toString(), tempo: (await api.query.subtensorModule.tempo(1)).toNumber() };
const keys = new Keyring({ type: 'sr25519' });
const cold = keys.addFromUri('//Charlie'), hot = keys.addFromUri('//Charlie//hot');
const send = (tx, who) => new Promise((done, fail) => tx.signAndSend(who, r => { if (r.isFinalized || r.isError) done(r); }).catch(fail));
const name = r => r.dispatchError ? api.registry.findMetaError(r.dispatchError.asModule).name : 'ok';
out.register = name(await send(api.tx.subtensorModule.burnedRegister(1, hot.address), cold));
out.commit = name(await send(api.tx.commitments.setCommitment(1, { fields: [{ Raw5: '0x68656c6c6f' }] }), hot));
out.again = name(await send(api.tx.subtensorModule.burnedRegister(1, hot.address), cold));
out.field = (await api.query.commitments.commitmentOf(1, hot.address)).unwrap().info.fields[0].toHuman();
out.listed = (await api.call.subnetInfoRuntimeApi.getMetagraph(1)).unwrap().hotkeys.map(x => x.toString()).includes(hot.address);
const call = api.tx.subtensorModule.setWeights(3, [1, 2, 3], [100, 65535, 7], 0).method.toHex();
out.call = call;
// Each block's hash is that of its header, as polkadot.js computes it, and the header names the one before.
out.headers = 'ok', out.extrinsics = 0;
const head = (await api.rpc.chain.getHeader()).number.toNumber();
for (let n = 1; n <= head; n++) {
  const hash = await api.rpc.chain.getBlockHash(n), { block } = await api.rpc.chain.getBlock(hash);
  const parent = (await api.rpc.chain.getBlockHash(n - 1)).toHex();
  out.extrinsics += block.extrinsics.length;
  if (block.header.hash.toHex() !== hash.toHex() || block.header.parentHash.toHex() !== parent)
    out.headers = `block ${n}: ${hash} ${parent} ${JSON.stringify(block.header)}`;
}
console.log(JSON.stringify(out));
await api.disconnect();
