{{/* Parts of a server's pod. */}}

{{/* Directories of the server's Secrets, by the name of their volume. */}}
{{- define "cloakwork.serverFiles" -}}
{{- if .Values.tls.existingSecret }}
tls: {{ include "cloakwork.paths.tls" . }}
{{- end }}
{{- if .Values.workers.clientCa.existingSecret }}
client-ca: {{ include "cloakwork.paths.clientCa" . }}
{{- end }}
{{- if and .Values.s3.bucket .Values.s3.existingSecret }}
s3: {{ include "cloakwork.paths.s3" . }}
{{- end }}
{{- if eq .Values.mode "scaled" }}
ca: {{ include "cloakwork.paths.ca" . }}
{{- if .Values.database.existingSecret }}
database: {{ include "cloakwork.paths.database" . }}
{{- end }}
{{- if .Values.database.ca.existingSecret }}
database-ca: {{ include "cloakwork.paths.databaseCa" . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The variable with the configuration is also for commands that `kubectl exec` runs in the pod. */}}
{{- define "cloakwork.serverEnv" -}}
env:
  - name: CLOAKWORK_CONFIG
    value: {{ include "cloakwork.paths.config" . }}
  {{- if eq .Values.mode "scaled" }}
  - name: POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: CLOAKWORK_REPLICA__URL
    value: {{ include "cloakwork.scheme" . }}://$(POD_NAME).{{ include "cloakwork.serversDomain" . }}:{{ include "cloakwork.ports.api" . }}
  {{- end }}
  {{- with include "cloakwork.env" .Values.server.env | trim }}{{ . | nindent 2 }}{{ end }}
{{- end -}}

{{- define "cloakwork.adminProbe" -}}
httpGet:
  path: {{ index . 1 }}
  port: admin
  {{- if (index . 0).Values.server.adminTls }}
  scheme: HTTPS
  {{- end }}
{{- end -}}
