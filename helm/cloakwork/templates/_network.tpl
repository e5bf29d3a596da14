{{/* Rules of NetworkPolicies. An empty list of peers in a rule means any address. */}}

{{- define "cloakwork.egress.dns" -}}
- to:
    {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}

{{- define "cloakwork.egress.servers" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "cloakwork.selector" (list . "server") | nindent 10 }}
  ports:
    - {port: {{ include "cloakwork.ports.api" . }}, protocol: TCP}
{{- end -}}

{{/* The database, S3 or the collector, from .Values.networkPolicy. */}}
{{- define "cloakwork.egress.store" -}}
- ports:
    {{- range .ports }}
    - {port: {{ int . }}, protocol: TCP}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- define "cloakwork.ingress.monitoring" -}}
{{- with (index . 0).Values.networkPolicy.monitoring -}}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - {port: {{ index $ 1 }}, protocol: TCP}
{{- end -}}
{{- end -}}
