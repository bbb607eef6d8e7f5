// Keys, certificates and kubeconfigs of a throw-away cluster, made by openssl. Must not know whose they are.
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { run } from '../../src/host/run.ts';

/** Writes NAME.key and NAME.crt of `subject` into the folder, self-signed unless `more`, words for `openssl req`, says by whom. */
export async function issue(folder: string, name: string, subject: string, more: readonly string[]): Promise<void> {
  const at = (file: string): string => `${folder}/${file}`;
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc', '-keyout', at(`${name}.key`)];
  await run('openssl', ['req', '-x509', ...key, '-out', at(`${name}.crt`), '-days', '30', '-subj', subject, ...more]);
}

/** Words for `issue`: signed by the authority of the folder (ca.crt, ca.key), with one extension, such as the names of a server. */
export function signedBy(folder: string, extension: string): string[] {
  const authority = ['-CA', `${folder}/ca.crt`, '-CAkey', `${folder}/ca.key`];
  return [...authority, '-addext', 'basicConstraints=CA:FALSE', '-addext', extension];
}

/** The key that tokens of service accounts are signed with. */
export async function accountsKey(file: string): Promise<void> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  await writeFile(file, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
}

/** A kubeconfig (JSON is YAML) with one user on one server; the PEMs are inside. */
export function kubeconfigOf(to: { url: string; ca: string; cert: string; key: string }): string {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'e2e',
    contexts: [{ name: 'e2e', context: { cluster: 'e2e', user: 'e2e' } }],
    clusters: [{ name: 'e2e', cluster: { server: to.url, 'certificate-authority-data': base64(to.ca) } }],
    users: [{ name: 'e2e', user: { 'client-certificate-data': base64(to.cert), 'client-key-data': base64(to.key) } }],
  });
}
