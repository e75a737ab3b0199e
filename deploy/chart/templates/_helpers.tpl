{{- define "agon.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "agon.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* selector: (dict "root" $ "part" "server") */}}
{{- define "agon.selector" -}}
app.kubernetes.io/name: agon
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "agon.labels" -}}
{{ include "agon.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{- define "agon.serverURL" -}}
{{ if .Values.server.tlsSecret }}https{{ else }}http{{ end }}://{{ include "agon.name" . }}-server:{{ .Values.server.port }}
{{- end -}}

{{/* What a pod without boxes may do. */}}
{{- define "agon.plainSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* Variables and volumes of certificates: (dict "root" $ "own" SECRET "serves" true) */}}
{{- define "agon.tlsEnv" -}}
{{- if .root.Values.tls.caSecret }}
- {name: AGON_CA, value: /ca/ca.crt}
{{- end }}
{{- if .own }}
- {name: AGON_CLIENT_CERT, value: /tls/tls.crt}
- {name: AGON_CLIENT_KEY, value: /tls/tls.key}
{{- if .serves }}
- {name: AGON_TLS_CERT, value: /tls/tls.crt}
- {name: AGON_TLS_KEY, value: /tls/tls.key}
{{- if .root.Values.tls.mutual }}
- {name: AGON_CLIENT_CA, value: /ca/ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "agon.tlsMounts" -}}
{{- if .root.Values.tls.caSecret }}
- {name: ca, mountPath: /ca, readOnly: true}
{{- end }}
{{- if .own }}
- {name: tls, mountPath: /tls, readOnly: true}
{{- end }}
{{- end -}}

{{- define "agon.tlsVolumes" -}}
{{- if .root.Values.tls.caSecret }}
- name: ca
  secret:
    secretName: {{ .root.Values.tls.caSecret }}
    defaultMode: 0440
    items:
      - {key: {{ .root.Values.tls.caKey | quote }}, path: ca.crt}
{{- end }}
{{- if .own }}
- name: tls
  secret:
    secretName: {{ .own }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{/* Variables of models: (dict "llm" ...) */}}
{{- define "agon.llm" -}}
{{- with .baseURL }}
- name: AGON_LLM_BASE_URL
  value: {{ . | quote }}
{{- end }}
{{- with .model }}
- name: AGON_LLM_MODEL
  value: {{ . | quote }}
{{- end }}
{{- if .existingSecret }}
- name: AGON_LLM_API_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .key }}
{{- end }}
{{- end -}}

{{/* Where a pod is placed. */}}
{{- define "agon.placing" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
