export interface Where {
  server?: string;
  kubeconfig?: string;
}
