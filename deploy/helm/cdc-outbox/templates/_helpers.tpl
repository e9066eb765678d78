{{- define "cdc-outbox.name" -}}
{{- if contains "cdc-outbox" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-cdc-outbox" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "cdc-outbox.common" -}}
app.kubernetes.io/part-of: cdc-outbox
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* The labels that select: of the relay, or of the monitor. */ -}}
{{- define "cdc-outbox.selector" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end -}}

{{- /* The pod of .part, which is cdc-outbox or cdc-outbox-monitor, with .args, .values and .secrets. */ -}}
{{- define "cdc-outbox.pod" -}}
{{- $root := .root -}}
metadata:
  annotations:
    checksum/config: {{ toYaml $root.Values.config | sha256sum }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  labels:
    {{- include "cdc-outbox.selector" . | nindent 4 }}
    app.kubernetes.io/part-of: cdc-outbox
spec:
  serviceAccountName: {{ include "cdc-outbox.name" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- if .spread }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "cdc-outbox.selector" . | nindent 10 }}
  {{- end }}
  containers:
    - name: cdc-outbox
      image: {{ printf "%s:%s" $root.Values.image.repository (default $root.Chart.AppVersion $root.Values.image.tag) }}
      {{- with $root.Values.image.pullPolicy }}
      imagePullPolicy: {{ . }}
      {{- end }}
      args: {{ toJson .args }}
      env:
        - {name: CDC_OUTBOX_CONFIG, value: /etc/cdc-outbox/cdc-outbox.yaml}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: http, containerPort: 9464}
      startupProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 2
        failureThreshold: 30
      livenessProbe:
        httpGet: {path: /healthz, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        periodSeconds: 5
        timeoutSeconds: 2
      resources: {{- toYaml .values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: config, mountPath: /etc/cdc-outbox, readOnly: true}
        {{- range .secrets }}
        - {name: {{ .name }}, mountPath: /run/secrets/{{ .name }}, readOnly: true}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "cdc-outbox.name" $root }}}
    {{- range .secrets }}
    - name: {{ .name }}
      secret:
        secretName: {{ .secretName }}
        {{- with get . "items" }}
        items: {{- toYaml . | nindent 10 }}
        {{- end }}
    {{- end }}
{{- end -}}
