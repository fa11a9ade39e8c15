// An issuer of OpenID Connect for tests: node oidc_provider.mjs FOLDER PORT SECONDS
// FOLDER/keys.json holds the private keys, FOLDER/redirects.json the addresses to which browsers are
// sent back, and FOLDER/groups.json the groups of each name, which may change. Tokens are valid for
// SECONDS. The pages take any name and password. oidc_provider.py starts it in the folder that has
// oidc-provider.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [folder, port, seconds] = process.argv.slice(2);
const installed = createRequire(`${process.cwd()}/`);
const { Provider } = await import(installed.resolve("oidc-provider"));

const api = "urn:headrace";
const ttl = Number(seconds);
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

const read = (name) => JSON.parse(readFileSync(`${folder}/${name}.json`, "utf8"));
const browserClient = {
  application_type: "native",
  grant_types: ["authorization_code"],
  redirect_uris: read("redirects"),
  response_types: ["code"],
};

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
    ...(browserClient.redirect_uris.length === 0
      ? []
      : [
          { ...browserClient, client_id: "pages", token_endpoint_auth_method: "none" },
          {
            ...browserClient,
            client_id: "pages-with-a-secret",
            client_secret: "secret:of/the pages",
            token_endpoint_auth_method: "client_secret_basic",
          },
        ]),
  ],
  jwks: read("keys"),
  claims: { openid: ["sub"], profile: ["preferred_username"], groups: ["groups"] },
  conformIdTokenClaims: false,
  ttl: { IdToken: ttl },
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
    return { preferred_username: name, groups: read("groups")[name] ?? [] };
  },
  findAccount: (_context, id) => ({
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, groups: read("groups")[id] ?? [] }),
  }),
  scopes: ["openid", "offline_access", "profile", "groups"],
  rotateRefreshToken: true,
});
provider.listen(Number(port), "127.0.0.1");
