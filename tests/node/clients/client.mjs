// A wallet's first calls with fetch as it comes with Node.js, all settings left as they are.
// Arguments: the gateway's address, the node's, a user's name. Prints a line of JSON.
const [gateway, node, username] = process.argv.slice(2);
const { WAAS_API_KEY, WAAS_API_SECRET } = process.env;
const basic = `Basic ${btoa(`${WAAS_API_KEY}:${WAAS_API_SECRET}`)}`;
const json = { "Content-Type": "application/json" };

const post = (url, Authorization, body, headers = json) =>
  fetch(url, { method: "POST", headers: { ...headers, Authorization }, body });
await post(`${gateway}/member/user-management/v3/signup`, basic, JSON.stringify({ username }));
const grant = new URLSearchParams({ grant_type: "client_credentials", username });
const login = await post(`${gateway}/auth/auth-service/v3/login`, basic, grant, {});
const bearer = `Bearer ${(await login.json()).access_token}`;

const ask = (path, body, who = bearer) => post(`${node}/v3/wallet/${path}`, who, JSON.stringify(body));
const share = await (await ask("generate", { curve: "secp256k1", password: "correct horse" })).json();
const order = { ...share, message: "ab".repeat(32) };
const signatures = [];
for (let i = 0; i < 10; i++) signatures.push((await (await ask("sign", order)).json()).signature);
const signers = ["operator", "institution"].map((signer) => ask("sign", { ...order, signer }));
for (const answer of await Promise.all(signers)) signatures.push((await answer.json()).signature);
const refused = (await ask("sign", order, "Bearer nothing")).status;
console.log(JSON.stringify({ public_key: share.public_key, signatures, refused }));
