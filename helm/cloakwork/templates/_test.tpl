{{/* A command of `helm test` as a container: (list $ (list "name" (list "arguments"))). */}}
{{- define "cloakwork.testStep" -}}
{{- $root := index . 0 -}}
{{- $step := index . 1 -}}
- name: {{ index $step 0 }}
  image: {{ include "cloakwork.image" (list $root dict) }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  command: [/usr/bin/cloakwork]
  args: {{ concat (ternary (list "--unverified") list (eq $root.Values.test.anchor "")) (index $step 1) | toJson }}
  env:
    - name: CLOAKWORK_SERVER
      value: {{ include "cloakwork.url" $root }}
    - name: CLOAKWORK_CA
      value: {{ include "cloakwork.paths.ca" $root }}/ca.crt
    - name: CLOAKWORK_KEYS
      value: /keys/test
    - name: CLOAKWORK_TOKEN
      valueFrom:
        secretKeyRef:
          name: {{ $root.Values.test.existingSecret }}
          key: {{ $root.Values.test.key }}
    {{- with $root.Values.test.anchor }}
    - name: CLOAKWORK_ANCHOR
      value: {{ . }}
    {{- end }}
  {{- include "cloakwork.containerSecurity" $root | nindent 2 }}
  {{- include "cloakwork.resources" (dict "cpu" "1" "memoryMiB" 1024 "storageMiB" 1024) | nindent 2 }}
  volumeMounts:
    - name: keys
      mountPath: /keys
    - name: ca
      mountPath: {{ include "cloakwork.paths.ca" $root }}
      readOnly: true
{{- end -}}
