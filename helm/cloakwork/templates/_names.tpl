{{/* Names, labels and images. */}}

{{/* Prefix of all names. 32 characters leave room for "-pool-" and the name of a pool. */}}
{{- define "cloakwork.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 32 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 32 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cloakwork.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "cloakwork.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select all pods of a release. Selectors cannot change, so nothing else is in them. */}}
{{- define "cloakwork.releaseSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels that select the pods of a component: (list $ "server"). */}}
{{- define "cloakwork.selector" -}}
{{ include "cloakwork.releaseSelector" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* All labels of an object of a component: (list $ "server"). */}}
{{- define "cloakwork.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "cloakwork.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of the pods of a component. A new version of the chart alone restarts no pod. */}}
{{- define "cloakwork.podLabels" -}}
{{ include "cloakwork.selector" . }}
{{- with (index . 0).Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The image, in which a pool may replace single parts: (list $ $pool.image). */}}
{{- define "cloakwork.image" -}}
{{- $root := index . 0 -}}
{{- $own := index . 1 -}}
{{- $repository := default $root.Values.image.repository $own.repository -}}
{{- $digest := $own.digest -}}
{{- if not (or $own.repository $own.tag $own.digest) -}}
{{- $digest = $root.Values.image.digest -}}
{{- end -}}
{{- if $digest -}}
{{ $repository }}@{{ $digest }}
{{- else -}}
{{ $repository }}:{{ coalesce $own.tag $root.Values.image.tag $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "cloakwork.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Host of the service for clients and workers. */}}
{{- define "cloakwork.host" -}}
{{ include "cloakwork.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* Domain of the single servers. */}}
{{- define "cloakwork.serversDomain" -}}
{{ include "cloakwork.fullname" . }}-servers.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "cloakwork.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.existingSecret "") }}
{{- end -}}

{{- define "cloakwork.url" -}}
{{ include "cloakwork.scheme" . }}://{{ include "cloakwork.host" . }}:{{ .Values.service.port | int }}
{{- end -}}

{{- define "cloakwork.caSecret" -}}
{{ default .Values.tls.existingSecret .Values.tls.ca.existingSecret }}
{{- end -}}
