{{/* What all pods share. */}}

{{/* Security of a pod, for the profile `restricted`. The group opens mounted Secrets and volumes to
     the user of the image. With OnRootMismatch, only the first mount of a volume changes modes:
     later changes would open the data directory, and the server would refuse it. */}}
{{- define "cloakwork.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "cloakwork.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{/* Equal requests and limits. The kubelet evicts such pods last, and may give them processors of
     their own: (dict "cpu" 2 "memoryMiB" 512 "storageMiB" 64 "extended" (dict "nvidia.com/gpu" 1)). */}}
{{- define "cloakwork.resources" -}}
{{- $context := . -}}
resources:
{{- range $side := list "requests" "limits" }}
  {{ $side }}:
    cpu: {{ kindIs "string" $context.cpu | ternary $context.cpu ($context.cpu | int | toString) | quote }}
    memory: {{ printf "%dMi" (int $context.memoryMiB) }}
    ephemeral-storage: {{ printf "%dMi" (int $context.storageMiB) }}
    {{- range $name, $count := $context.extended }}
    {{ $name }}: {{ $count | int | toString | quote }}
    {{- end }}
{{- end }}
{{- end -}}

{{- define "cloakwork.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{/* nodeSelector, tolerations and priorityClassName of .Values.server or of a pool. */}}
{{- define "cloakwork.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* A volume with files of a Secret: (dict "name" "tls" "secret" "x" "keys" (dict "tls.crt" "tls.crt")).
     `keys` names files by the Secret's keys, so that no other key of the Secret is in the pod. */}}
{{- define "cloakwork.secretVolume" -}}
- name: {{ .name }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    items:
    {{- range $key, $path := .keys }}
      - key: {{ $key }}
        path: {{ $path }}
    {{- end }}
{{- end -}}

{{/* Secrets for the collector, which servers and workers have: their volumes, and their mounts. */}}
{{- define "cloakwork.collectorVolumes" -}}
{{- $telemetry := .Values.telemetry -}}
{{- if and $telemetry.endpoint $telemetry.ca.existingSecret }}
{{ include "cloakwork.secretVolume" (dict "name" "collector-ca" "secret" $telemetry.ca.existingSecret "keys" (dict $telemetry.ca.key "ca.crt")) }}
{{- end }}
{{- if and $telemetry.endpoint $telemetry.headers.existingSecret }}
{{ include "cloakwork.secretVolume" (dict "name" "collector-headers" "secret" $telemetry.headers.existingSecret "keys" (dict $telemetry.headers.key "headers")) }}
{{- end }}
{{- end -}}

{{- define "cloakwork.collectorMounts" -}}
{{- $telemetry := .Values.telemetry -}}
{{- if and $telemetry.endpoint $telemetry.ca.existingSecret }}
- name: collector-ca
  mountPath: {{ include "cloakwork.paths.collectorCa" . }}
  readOnly: true
{{- end }}
{{- if and $telemetry.endpoint $telemetry.headers.existingSecret }}
- name: collector-headers
  mountPath: {{ include "cloakwork.paths.collectorHeaders" . }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "cloakwork.ports.api" -}}7270{{- end -}}
{{- define "cloakwork.ports.admin" -}}7271{{- end -}}
{{/* On loopback of the pod. `kubectl port-forward` reaches it. */}}
{{- define "cloakwork.ports.operator" -}}7272{{- end -}}
{{- define "cloakwork.ports.metrics" -}}7272{{- end -}}

{{/* One of the two limits of a PodDisruptionBudget, a number or a percentage. */}}
{{- define "cloakwork.budget" -}}
{{- range $name := list "minAvailable" "maxUnavailable" }}
{{- $value := get $ $name }}
{{- if ne (toString $value) "" }}
{{ $name }}: {{ kindIs "string" $value | ternary $value ($value | int) }}
{{- end }}
{{- end }}
{{- end -}}
