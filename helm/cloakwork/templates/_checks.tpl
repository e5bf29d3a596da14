{{/* Refuses combinations of values that the schema cannot see, with a message for people. Values of
     a wrong name, type or range are refused by values.schema.json before. */}}
{{- define "cloakwork.checks" -}}
{{- $values := .Values -}}
{{- $isScaled := eq $values.mode "scaled" -}}
{{- $hasTls := ne $values.tls.existingSecret "" -}}
{{- if gt (len (include "cloakwork.fullname" .)) 32 -}}
{{- fail "fullnameOverride has more than 32 characters, and names of pools follow it" -}}
{{- end -}}

{{- if not $isScaled -}}
{{- if ne (int $values.server.replicas) 1 -}}
{{- fail "server.replicas must be 1 in mode embedded: a database file has one server. Mode scaled has several, on PostgreSQL and S3" -}}
{{- end -}}
{{- if $values.database.url -}}
{{- fail "database.url is set, and mode is embedded: set mode to scaled for a database on PostgreSQL" -}}
{{- end -}}
{{- if and $values.server.embeddedWorker.enabled (gt (int $values.server.embeddedWorker.threads) (int $values.server.cpu)) -}}
{{- fail "server.embeddedWorker.threads is more than server.cpu: more threads than processors gain nothing" -}}
{{- end -}}
{{- else -}}
{{- if not $values.database.url -}}
{{- fail "mode scaled needs database.url, the address of PostgreSQL" -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]*@" $values.database.url -}}
{{- fail "database.url must not hold a password: put it into a Secret, and name it in database.existingSecret" -}}
{{- end -}}
{{- if not $values.s3.bucket -}}
{{- fail "mode scaled needs s3.bucket: servers share keys and ciphertexts in it" -}}
{{- end -}}
{{- if not $hasTls -}}
{{- fail "mode scaled needs tls.existingSecret: servers pass calls with tokens on to each other" -}}
{{- end -}}
{{- $attestation := default dict $values.server.settings.attestation -}}
{{- if not (or $values.installation.existingSecret $attestation.sign_command) -}}
{{- fail "mode scaled needs installation.existingSecret: all servers certify workers with one key. docs/kubernetes.md says how to make it" -}}
{{- end -}}
{{- $stagingMiB := add (include "cloakwork.blobMiB" .) (include "cloakwork.stagingMarginMiB" .) -}}
{{- if lt (int64 $values.server.stagingMiB) $stagingMiB -}}
{{- fail (printf "server.stagingMiB must be at least %d: the largest blob (limits.blob_bytes) must fit, with room to spare" $stagingMiB) -}}
{{- end -}}
{{- end -}}

{{- if and $values.service.externalTrafficPolicy (eq $values.service.type "ClusterIP") -}}
{{- fail "service.externalTrafficPolicy is for callers from outside of the cluster: set service.type to NodePort or LoadBalancer" -}}
{{- end -}}
{{- if and (not $values.telemetry.endpoint) (or $values.telemetry.ca.existingSecret $values.telemetry.headers.existingSecret) -}}
{{- fail "telemetry.ca and telemetry.headers need telemetry.endpoint" -}}
{{- end -}}
{{- if and $values.server.adminTls (not $hasTls) -}}
{{- fail "server.adminTls needs tls.existingSecret" -}}
{{- end -}}
{{- if and $values.workers.clientCa.existingSecret (not $hasTls) -}}
{{- fail "workers.clientCa needs tls.existingSecret: certificates of workers are a part of TLS" -}}
{{- end -}}
{{- if and $values.workers.certificateOnly (not $values.workers.clientCa.existingSecret) -}}
{{- fail "workers.certificateOnly needs workers.clientCa.existingSecret, the authority of the workers" -}}
{{- end -}}

{{- if $values.pools -}}
{{- if not $hasTls -}}
{{- fail "pools need tls.existingSecret: workers send tokens over TLS alone" -}}
{{- end -}}
{{- if eq $values.workers.authentication "token" -}}
{{- if not $values.workers.token.existingSecret -}}
{{- fail "pools need workers.token.existingSecret, a token of the scope worker" -}}
{{- end -}}
{{- if $values.workers.certificateOnly -}}
{{- fail "workers.certificateOnly refuses workers with a token: set workers.authentication to certificate" -}}
{{- end -}}
{{- else -}}
{{- if not (and $values.workers.certificate.existingSecret $values.workers.clientCa.existingSecret) -}}
{{- fail "workers.authentication is certificate: set workers.certificate.existingSecret and workers.clientCa.existingSecret" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- $names := list -}}
{{- range $values.pools -}}
{{- $pool := include "cloakwork.pool" (list $ .) | fromYaml -}}
{{- $at := printf "the pool %s" $pool.name -}}
{{- if has $pool.name $names -}}
{{- fail (printf "two pools have the name %s" $pool.name) -}}
{{- end -}}
{{- $names = append $names $pool.name -}}
{{- if eq $pool.kind "gpu" -}}
{{- if not $pool.gpu -}}
{{- fail (printf "%s is of kind gpu and needs gpu.resource and gpu.count: without them its pods would be scheduled to nodes without a GPU" $at) -}}
{{- end -}}
{{- if and (contains "/mig-" $pool.gpu.resource) (gt (int $pool.gpu.count) 1) -}}
{{- fail (printf "%s has more than one slice of a GPU: slices do not reach each other's memory, so set gpu.count to 1 and more replicas" $at) -}}
{{- end -}}
{{- else -}}
{{- if $pool.gpu -}}
{{- fail (printf "%s is of kind cpu and has gpu: set its kind to gpu" $at) -}}
{{- end -}}
{{- end -}}
{{- if and $pool.directReads (not (hasPrefix "https://" $values.s3.endpoint)) -}}
{{- fail (printf "%s has directReads and needs s3.endpoint with https://: a worker reads blobs from that host alone" $at) -}}
{{- end -}}
{{- if and $pool.directReads (not $values.s3.bucket) -}}
{{- fail (printf "%s has directReads and needs s3.bucket" $at) -}}
{{- end -}}
{{- if $pool.autoscaling.enabled -}}
{{- if not $values.autoscaling.prometheusAddress -}}
{{- fail (printf "%s is autoscaled and needs autoscaling.prometheusAddress" $at) -}}
{{- end -}}
{{- if not $pool.bootstrapsPerSecond -}}
{{- fail (printf "%s is autoscaled and needs bootstrapsPerSecond: the metric of its backlog divides by it" $at) -}}
{{- end -}}
{{- if gt (int $pool.autoscaling.minReplicas) (int $pool.autoscaling.maxReplicas) -}}
{{- fail (printf "%s has an autoscaling.minReplicas above autoscaling.maxReplicas" $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if and $values.metrics.prometheusRule.enabled (not (.Files.Glob "files/rules/*.yaml")) -}}
{{- fail "metrics.prometheusRule.enabled: this chart was packaged without files/rules" -}}
{{- end -}}
{{- if and $values.metrics.dashboards.enabled (not (.Files.Glob "files/dashboards/*.json")) -}}
{{- fail "metrics.dashboards.enabled: this chart was packaged without files/dashboards" -}}
{{- end -}}
{{- end -}}
