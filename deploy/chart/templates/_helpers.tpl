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
http://{{ include "agon.name" . }}-server:{{ .Values.server.port }}
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
