{{- define "flock.labels" -}}
app.kubernetes.io/name: flock
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "flock.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The records, Leases and certificates are in this namespace, whatever the release is called. */}}
{{- define "flock.namespace" -}}
{{- if ne .Release.Namespace "flock-system" -}}
{{- fail "install Flock in the namespace flock-system: helm install flock charts/flock --namespace flock-system" -}}
{{- end -}}
flock-system
{{- end }}

{{/* Folders above the pools: a pool's own may be mounted, or missing, at any time. */}}
{{- define "flock.poolFolders" -}}
{{- $folders := list -}}
{{- range .Values.pools -}}
{{- if .path -}}{{- $folders = append $folders (dir .path) -}}{{- end -}}
{{- end -}}
{{- without ($folders | uniq | sortAlpha) .Values.stateDir | toJson -}}
{{- end }}

{{/* As the agent reads them. Whose LVM is called is said here: a node's own knows its configuration and its udev. */}}
{{- define "flock.pools" -}}
{{- $pools := list -}}
{{- range .Values.pools -}}
{{- $pool := deepCopy . -}}
{{- if hasPrefix "lvm" .type -}}{{- $pool = merge $pool (dict "tools" "host") -}}{{- end -}}
{{- $pools = append $pools $pool -}}
{{- end -}}
{{- $pools | toYaml -}}
{{- end }}

{{/* Not empty when a pool is worked by the LVM in the image: it shares locks, state and configuration with the node's. */}}
{{- define "flock.imageLvm" -}}
{{- range .Values.pools -}}{{- if eq (.tools | default "host") "image" -}}yes{{- end -}}{{- end -}}
{{- end }}

{{- define "flock.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}
