// An authorization server that others wrote, with the tokens that it gives to a client of its own.
// Arguments: the folder of its package, and what the tokens are to be for.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [modules, resource] = process.argv.slice(2);
const found = createRequire(`${modules}/x.js`).resolve('oidc-provider');
const { Provider } = await import(pathToFileURL(found));

const jwk = (alg, kind, options) => {
  const { privateKey } = generateKeyPairSync(kind, options);
  return { ...privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: alg };
};
const keys = [jwk('RS256', 'rsa', { modulusLength: 2048 }), jwk('ES256', 'ec', { namedCurve: 'P-256' })];

const server = createServer();
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const issuer = `http://127.0.0.1:${server.address().port}`;
const info = (ctx, indicator, client) => ({
  scope: 'tools admin', audience: indicator, accessTokenFormat: 'jwt', accessTokenTTL: 600,
  jwt: { sign: { alg: client.clientId === 'rsa' ? 'RS256' : 'ES256' } },
});
const client = { client_secret: 'secret', grant_types: ['client_credentials'], redirect_uris: [], response_types: [] };
const provider = new Provider(issuer, {
  clients: [{ ...client, client_id: 'bot' }, { ...client, client_id: 'rsa' }],
  jwks: { keys },
  scopes: ['tools', 'admin'],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true, defaultResource: () => resource, getResourceServerInfo: info,
      useGrantedResource: () => true,
    },
  },
});
server.on('request', provider.callback());

const token = async (id, scope, wanted) => {
  const body = new URLSearchParams({ grant_type: 'client_credentials', scope, resource: wanted });
  const headers = { authorization: `Basic ${btoa(`${id}:secret`)}` };
  const answer = await fetch(`${issuer}/token`, { method: 'POST', body, headers });
  const said = await answer.json();
  if (!said.access_token) throw new Error(JSON.stringify(said));
  return said.access_token;
};
const tokens = {
  tools: await token('bot', 'tools', resource),
  admin: await token('bot', 'tools admin', resource),
  rsa: await token('rsa', 'tools', resource),
  elsewhere: await token('bot', 'tools', 'https://other.example/mcp'),
};
console.log(JSON.stringify({ issuer, tokens }));
