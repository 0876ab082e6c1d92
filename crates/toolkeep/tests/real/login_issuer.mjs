// An authorization server that others wrote, with which people sign in. Prints its URL.
// Arguments: the folder of its package, and where it sends browsers back to.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, redirect] = process.argv.slice(2);
const found = createRequire(`${modules}/x.js`).resolve('oidc-provider');
const { Provider } = await import(pathToFileURL(found));

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const key = { ...privateKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig', kid: 'one' };

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: 'console', client_secret: 'a secret/of+it', redirect_uris: [redirect] }],
  jwks: { keys: [key] },
  cookies: { keys: ['one'] },
  claims: { openid: ['sub'], groups: ['groups'] },
  scopes: ['openid', 'groups'],
  pkce: { required: () => true },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, groups: id === 'ann' ? ['operators'] : [] }),
  }),
});
server.on('request', provider.callback());
console.log(JSON.stringify({ issuer }));
