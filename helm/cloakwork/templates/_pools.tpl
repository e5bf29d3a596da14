{{/* Pools of workers. */}}

{{/* A pool with the values that it does not set: (list $ $pool). */}}
{{- define "cloakwork.pool" -}}
{{- $defaults := (index . 0).Values.poolDefaults -}}
{{- $own := index . 1 -}}
{{- $pool := dict "name" $own.name "kind" $own.kind -}}
{{- range $name, $default := $defaults -}}
{{- $value := ternary (get $own $name) $default (hasKey $own $name) -}}
{{- if and (has $name (list "autoscaling" "image")) (kindIs "map" $value) -}}
{{- $whole := dict -}}
{{- range $inner, $innerDefault := $default -}}
{{- $_ := set $whole $inner (ternary (get $value $inner) $innerDefault (hasKey $value $inner)) -}}
{{- end -}}
{{- $value = $whole -}}
{{- end -}}
{{- $_ := set $pool $name $value -}}
{{- end -}}
{{- toYaml $pool -}}
{{- end -}}

{{/* Memory of the machine that a worker takes. A worker on GPUs has keys and ciphertexts there, and
     inputs and outputs of up to 2048 MiB in the memory of the machine. */}}
{{- define "cloakwork.poolMemoryMiB" -}}
{{- $base := add .vectorMemoryMiB .overheadMiB -}}
{{- if eq .kind "gpu" -}}
{{ add $base 2048 .warmMemoryMiB }}
{{- else -}}
{{ add $base .memoryMiB }}
{{- end -}}
{{- end -}}

{{- define "cloakwork.poolName" -}}
{{ include "cloakwork.fullname" (index . 0) }}-pool-{{ (index . 1).name }}
{{- end -}}

{{/* The query by which KEDA sizes a pool. Only owners of shards have the metric, so the sum is that
     of all shards. */}}
{{- define "cloakwork.backlogQuery" -}}
{{- $root := index . 0 -}}
{{- $labels := default (dict "namespace" $root.Release.Namespace) $root.Values.autoscaling.matchLabels -}}
{{- $matchers := list (printf "pool=%s" (toRawJson (index . 1).name)) -}}
{{- range $name, $value := $labels -}}
{{- $matchers = append $matchers (printf "%s=%s" $name (toRawJson $value)) -}}
{{- end -}}
sum(cloakwork_pool_backlog_worker_seconds{ {{- join "," $matchers -}} })
{{- end -}}
