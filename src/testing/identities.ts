// Nodes with certificates of one cluster. Only *.test.ts import it.
import { openAuthority, requestCertificate } from '../api/certificates.ts';
import { systemClock } from '../model/clock.ts';
import type { NodeIdentity } from '../api/certificates.ts';
import { memorySettings } from './memory-settings.ts';

/** A cluster of its own authority: identities of its nodes, made once each. */
export async function aCluster(): Promise<(node: string) => Promise<NodeIdentity>> {
  const authority = await openAuthority(memorySettings(), systemClock);
  const made = new Map<string, Promise<NodeIdentity>>();
  const make = async (node: string): Promise<NodeIdentity> => {
    const { key, csr } = await requestCertificate();
    const certificate = await authority.issueNode(csr, { node, uid: '11111111-2222-4333-8444-555555555555' });
    return { cluster: authority.cluster, node, key, certificate, authority: authority.bundle };
  };
  return (node) => {
    const identity = made.get(node) ?? make(node);
    made.set(node, identity);
    return identity;
  };
}
