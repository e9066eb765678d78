package traces

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

func value(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.Counter.GetValue()
}

type env map[string]string

func TestResolve(t *testing.T) {
	on := func(url string, change func(*Settings)) *Settings {
		s := &Settings{
			URL: url, Sample: 0.01, Headers: map[string]string{}, Queue: 2048, Batch: 512, Delay: time.Second,
		}
		if change != nil {
			change(s)
		}
		return s
	}
	for _, tc := range []struct {
		what  string
		given Given
		env   env
		want  *Settings
		err   string
	}{
		{what: "nothing: off"},
		{what: "ours", given: Given{Endpoint: "http://c:4318"}, want: on("http://c:4318/v1/traces", nil)},
		{
			what: "ours, a path", given: Given{Endpoint: "https://c/otlp/v1/traces"},
			want: on("https://c/otlp/v1/traces", nil),
		},
		{
			what: "ours, grpc", given: Given{Endpoint: "http://c:4317", Protocol: "grpc"},
			want: on("http://c:4317", func(s *Settings) {
				s.GRPC = true
			}),
		},
		{
			what: "ours wins", given: Given{Endpoint: "http://c:4318"},
			env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:1"}, want: on("http://c:4318/v1/traces", nil),
		},
		{what: "off wins", given: Given{Endpoint: "off"}, env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:1"}},
		{
			what: "the platform's", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/base"},
			want: on("http://c:4318/base/v1/traces", nil),
		},
		{
			what: "the platform's for traces, as it is",
			env: env{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d",
			}, want: on("http://c:4318/x", nil),
		},
		{what: "disabled", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}},
		{what: "no exporter", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}},
		{
			what: "another exporter", env: env{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "zipkin",
			}, err: "OTEL_TRACES_EXPORTER",
		},
		{
			what: "grpc by variable", env: env{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
			}, want: on("http://c:4317", func(s *Settings) {
				s.GRPC = true
			}),
		},
		{
			what: "our protocol wins", given: Given{Protocol: "http"},
			env:  env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			want: on("http://c:4318/v1/traces", nil),
		},
		{
			what: "another protocol", env: env{
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "thrift",
			}, err: "OTEL_EXPORTER_OTLP_PROTOCOL",
		},
		{
			what: "always on", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, want: on("http://c/v1/traces", func(s *Settings) {
				s.Sample = 1
			}),
		},
		{
			what: "always off", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_TRACES_SAMPLER": "parentbased_always_off"},
			want: on("http://c/v1/traces", func(s *Settings) {
				s.Sample = 0
			}),
		},
		{
			what: "a ratio", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"},
			want: on("http://c/v1/traces", func(s *Settings) {
				s.Sample = 0.25
			}),
		},
		{
			what: "a bad ratio", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"},
			err: "OTEL_TRACES_SAMPLER_ARG",
		},
		{
			what: "a sampler that does not ask the parent", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_TRACES_SAMPLER": "always_on"}, err: "OTEL_TRACES_SAMPLER",
		},
		{
			what: "another propagator", given: Given{Endpoint: "http://c"}, env: env{"OTEL_PROPAGATORS": "b3,jaeger"},
			err: "OTEL_PROPAGATORS",
		},
		{
			what: "ours among the propagators", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_PROPAGATORS": "baggage, tracecontext"}, want: on("http://c/v1/traces", nil),
		},
		{
			what: "queue", given: Given{Endpoint: "http://c"},
			env: env{
				"OTEL_BSP_MAX_QUEUE_SIZE": "9", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "3", "OTEL_BSP_SCHEDULE_DELAY": "200",
			},
			want: on("http://c/v1/traces", func(s *Settings) {
				s.Queue, s.Batch, s.Delay = 9, 3, 200*time.Millisecond
			}),
		},
		{
			what: "an absurd queue", given: Given{Endpoint: "http://c"}, env: env{"OTEL_BSP_MAX_QUEUE_SIZE": "-1"},
			err: "OTEL_BSP_MAX_QUEUE_SIZE",
		},
		{
			what: "a limit that is not here", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_BSP_EXPORT_TIMEOUT": "1"}, err: "OTEL_BSP_EXPORT_TIMEOUT",
		},
		{
			what: "our headers", given: Given{Endpoint: "http://c", Headers: "Authorization=Bearer%20s3cret, x=1,"},
			want: on("http://c/v1/traces", func(s *Settings) {
				s.Headers = map[string]string{"authorization": "Bearer s3cret", "x": "1"}
			}),
		},
		{
			what: "the platform's headers", given: Given{Endpoint: "http://c"},
			env: env{"OTEL_EXPORTER_OTLP_HEADERS": "a=s3cret"}, want: on("http://c/v1/traces", func(s *Settings) {
				s.Headers = map[string]string{"a": "s3cret"}
			}),
		},
		{
			what: "headers that are none", given: Given{Endpoint: "http://c", Headers: "s3cret"},
			err: "traces.headers is not name=value",
		},
		{
			what: "a header with a line feed", given: Given{Endpoint: "http://c", Headers: "a=s3cret%0d%0ab"},
			err: "traces.headers is not name=value",
		},
		{what: "no URL", given: Given{Endpoint: "c:4318"}, err: "traces.endpoint is not an http://"},
		{what: "a password in the URL", given: Given{Endpoint: "http://u:s3cret@c"}, err: "traces.headers"},
		{
			what: "a token in the URL", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c?token=s3cret"},
			err: "OTEL_EXPORTER_OTLP_ENDPOINT has more than",
		},
		{
			what: "no URL for traces", env: env{
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "c:4318", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
			},
			err: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is not an http://",
		},
	} {
		t.Run(tc.what, func(t *testing.T) {
			tc.given.Sample, tc.given.Default = 0.01, true
			got, err := Resolve(tc.given, func(name string) string { return tc.env[name] })
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.NotContains(t, err.Error(), "s3cret")
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
	got, err := Resolve(Given{Endpoint: "http://c", Sample: 0.5}, func(name string) string {
		return env{"OTEL_TRACES_SAMPLER": "always_on"}[name]
	})
	require.NoError(t, err, "what the configuration sets wins over the variables")
	require.Equal(t, 0.5, got.Sample)
}
