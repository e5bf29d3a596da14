{{/* The configuration of the server, as a dictionary of sections and as TOML. */}}

{{/* Directories of mounted files. */}}
{{- define "cloakwork.paths.config" -}}/etc/cloakwork/config/cloakwork.toml{{- end -}}
{{- define "cloakwork.paths.tls" -}}/etc/cloakwork/tls{{- end -}}
{{- define "cloakwork.paths.ca" -}}/etc/cloakwork/ca{{- end -}}
{{- define "cloakwork.paths.clientCa" -}}/etc/cloakwork/client-ca{{- end -}}
{{- define "cloakwork.paths.database" -}}/etc/cloakwork/database{{- end -}}
{{- define "cloakwork.paths.databaseCa" -}}/etc/cloakwork/database-ca{{- end -}}
{{- define "cloakwork.paths.s3" -}}/etc/cloakwork/s3{{- end -}}
{{- define "cloakwork.paths.collectorCa" -}}/etc/cloakwork/collector-ca{{- end -}}
{{- define "cloakwork.paths.collectorHeaders" -}}/etc/cloakwork/collector-headers{{- end -}}
{{- define "cloakwork.paths.worker" -}}/etc/cloakwork/worker{{- end -}}
{{- define "cloakwork.paths.volume" -}}/var/lib/cloakwork{{- end -}}
{{/* A directory inside the volume, which the server makes for itself alone. The root of a volume is
     open to a group, and the server would refuse it. */}}
{{- define "cloakwork.paths.data" -}}/var/lib/cloakwork/data{{- end -}}

{{/* Sections of the server's configuration. Of a setting without a value nothing is written, so the
     default of the server holds. */}}
{{- define "cloakwork.config" -}}
{{- $values := .Values -}}
{{- $isScaled := eq $values.mode "scaled" -}}
{{- $host := ternary (printf "[%s]" $values.server.bindAddress) $values.server.bindAddress (contains ":" $values.server.bindAddress) -}}
{{- $listen := dict "address" (printf "%s:%s" $host (include "cloakwork.ports.api" .)) "admin_address" (printf "%s:%s" $host (include "cloakwork.ports.admin" .)) "operator_address" (printf "127.0.0.1:%s" (include "cloakwork.ports.operator" .)) -}}
{{- if $values.tls.existingSecret -}}
{{- $_ := set $listen "tls_certificate" (printf "%s/tls.crt" (include "cloakwork.paths.tls" .)) -}}
{{- $_ := set $listen "tls_key" (printf "%s/tls.key" (include "cloakwork.paths.tls" .)) -}}
{{- end -}}
{{- if $values.workers.clientCa.existingSecret -}}
{{- $_ := set $listen "client_ca" (printf "%s/ca.crt" (include "cloakwork.paths.clientCa" .)) -}}
{{- end -}}
{{- if $values.server.adminTls -}}
{{- $_ := set $listen "admin_tls" true -}}
{{- end -}}
{{- if $values.server.trustedProxies -}}
{{- $_ := set $listen "trusted_proxies" (join ", " $values.server.trustedProxies) -}}
{{- end -}}
{{- $storage := dict "directory" (include "cloakwork.paths.data" .) -}}
{{- if $values.s3.bucket -}}
{{- $_ := set $storage "blobs" "s3" -}}
{{- $_ := set $storage "s3_bucket" $values.s3.bucket -}}
{{- $_ := set $storage "s3_region" $values.s3.region -}}
{{- if $values.s3.endpoint -}}
{{- $_ := set $storage "s3_endpoint" $values.s3.endpoint -}}
{{- end -}}
{{- if $values.s3.existingSecret -}}
{{- $_ := set $storage "s3_credentials_file" (printf "%s/credentials" (include "cloakwork.paths.s3" .)) -}}
{{- end -}}
{{- end -}}
{{- $auth := dict "anonymous" false -}}
{{- if $values.workers.certificateOnly -}}
{{- $_ := set $auth "worker_mtls" true -}}
{{- end -}}
{{- $worker := dict "embedded" false -}}
{{- if and (not $isScaled) $values.server.embeddedWorker.enabled -}}
{{- $worker = dict "embedded" true "threads" $values.server.embeddedWorker.threads -}}
{{- $_ := set $worker "memory_bytes" (mul $values.server.embeddedWorker.keyMemoryMiB 1048576) -}}
{{- $_ := set $worker "vector_memory_bytes" (mul $values.server.embeddedWorker.vectorMemoryMiB 1048576) -}}
{{- end -}}
{{- $config := dict "listen" $listen "storage" $storage "auth" $auth "worker" $worker -}}
{{- if $isScaled -}}
{{- $database := dict "url" $values.database.url -}}
{{- if $values.database.existingSecret -}}
{{- $_ := set $database "password_file" (printf "%s/password" (include "cloakwork.paths.database" .)) -}}
{{- end -}}
{{- if $values.database.ca.existingSecret -}}
{{- $_ := set $database "ca_file" (printf "%s/ca.crt" (include "cloakwork.paths.databaseCa" .)) -}}
{{- end -}}
{{- if $values.database.requireSyncStandby -}}
{{- $_ := set $database "require_sync_standby" true -}}
{{- end -}}
{{- $_ := set $config "database" $database -}}
{{- $_ := set $config "replica" (dict "ca_file" (printf "%s/ca.crt" (include "cloakwork.paths.ca" .))) -}}
{{- $_ := set $config "limits" (dict "staged_bytes" (mul (sub $values.server.stagingMiB (include "cloakwork.stagingMarginMiB" .)) 1048576)) -}}
{{- end -}}
{{- range $values.pools -}}
{{- $pool := include "cloakwork.pool" (list $ .) | fromYaml -}}
{{- if $pool.bootstrapsPerSecond -}}
{{- $_ := set $config (printf "pools.%s" $pool.name) (dict "bootstraps_per_second" $pool.bootstrapsPerSecond "sets" (join ", " $pool.sets)) -}}
{{- end -}}
{{- end -}}
{{- if $values.telemetry.endpoint -}}
{{- $telemetry := dict "otlp_endpoint" $values.telemetry.endpoint "otlp_protocol" $values.telemetry.protocol -}}
{{- if $values.telemetry.ca.existingSecret -}}
{{- $_ := set $telemetry "otlp_ca_file" (printf "%s/ca.crt" (include "cloakwork.paths.collectorCa" .)) -}}
{{- end -}}
{{- if $values.telemetry.headers.existingSecret -}}
{{- $_ := set $telemetry "otlp_headers_file" (printf "%s/headers" (include "cloakwork.paths.collectorHeaders" .)) -}}
{{- end -}}
{{- $_ := set $config "telemetry" $telemetry -}}
{{- end -}}
{{- range $name, $value := $values.server.settings -}}
{{- if and (kindIs "map" $value) (hasKey $config $name) -}}
{{- $section := get $config $name -}}
{{- range $setting, $inner := $value -}}
{{- $_ := set $section $setting $inner -}}
{{- end -}}
{{- else -}}
{{- $_ := set $config $name $value -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* TOML of a dictionary: first the settings without a section, then the sections, by name. */}}
{{- define "cloakwork.toml" -}}
{{- range $name, $value := . }}
{{- if not (kindIs "map" $value) }}
{{ $name }} = {{ include "cloakwork.tomlValue" $value }}
{{- end }}
{{- end }}
{{- range $section, $settings := . }}
{{- if kindIs "map" $settings }}

[{{ $section }}]
{{- range $name, $value := $settings }}
{{ $name }} = {{ include "cloakwork.tomlValue" $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A string of JSON is a string of TOML. Numbers of values are floating point, and all settings
     are whole numbers. */}}
{{- define "cloakwork.tomlValue" -}}
{{- if kindIs "string" . -}}
{{ toRawJson . }}
{{- else if kindIs "bool" . -}}
{{ . }}
{{- else -}}
{{ . | int64 }}
{{- end -}}
{{- end -}}

{{/* Space in the volume of staged uploads that the server leaves free. The kubelet evicts a pod
     whose volume is larger than its limit. */}}
{{- define "cloakwork.stagingMarginMiB" -}}512{{- end -}}

{{/* Size in MiB of the largest blob, rounded up. */}}
{{- define "cloakwork.blobMiB" -}}
{{- $limits := default dict .Values.server.settings.limits -}}
{{- $bytes := ternary $limits.blob_bytes 17179869184 (hasKey $limits "blob_bytes") | int64 -}}
{{ div (add $bytes 1048575) 1048576 }}
{{- end -}}

{{/* Time in seconds in which a server drains, rounded up. */}}
{{- define "cloakwork.drainSeconds" -}}
{{- $limits := default dict .Values.server.settings.limits -}}
{{- $milliseconds := ternary $limits.drain_ms 30000 (hasKey $limits "drain_ms") | int64 -}}
{{ div (add $milliseconds 999) 1000 }}
{{- end -}}
