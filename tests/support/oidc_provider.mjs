// An issuer of OpenID Connect for tests: node oidc_provider.mjs FOLDER PORT SECONDS
// FOLDER/keys.json holds the private keys, and FOLDER/groups.json the groups of each name, which may
// change. Tokens are valid for SECONDS. The page of the device flow takes any name and password. oidc_provider.py starts it in the folder that has oidc-provider.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, port, seconds] = process.argv.slice(2);
const installed = createRequire(`${process.cwd()}/`);
const { Provider } = await import(installed.resolve("oidc-provider"));

const api = "urn:headrace";
const ttl = Number(seconds);
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "service",
      client_secret: "secret-of-the-service",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
    {
      client_id: "headrace",
      token_endpoint_auth_method: "none",
      application_type: "native",
      grant_types: [deviceGrant, "refresh_token"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  jwks: JSON.parse(readFileSync(`${folder}/keys.json`, "utf8")),
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => api,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, resource) => ({
        scope: "openid offline_access profile groups",
        audience: resource === api ? "headrace" : "another-service",
        accessTokenTTL: ttl,
        accessTokenFormat: "jwt",
      }),
    },
    revocation: { enabled: true },
  },
  extraTokenClaims: (_context, token) => {
    const name = token.accountId ?? token.clientId;
    const groups = JSON.parse(readFileSync(`${folder}/groups.json`, "utf8"));
    return { preferred_username: name, groups: groups[name] ?? [] };
  },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ["openid", "offline_access", "profile", "groups"],
  rotateRefreshToken: true,
});
provider.listen(Number(port), "127.0.0.1");
