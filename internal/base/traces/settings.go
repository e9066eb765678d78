package traces

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Off is the endpoint that turns traces off, whatever the OTEL_ variables say.
const Off = "off"

// Given holds the configuration's values.
type Given struct {
	Endpoint string
	Protocol string // http or grpc; empty: not set
	Sample   float64
	Default  bool // Sample is the default: the configuration does not set it
	Limit    int
	Headers  string // name=value,…, values percent-encoded as in OTEL_EXPORTER_OTLP_HEADERS
}

// Settings say where spans go and how many there are.
type Settings struct {
	URL     string
	GRPC    bool
	Sample  float64 // of events without a traceparent
	Limit   int     // spans a second at most, 0 for none
	Headers map[string]string

	Queue int // spans that wait at most
	Batch int // spans in an export at most
	Delay time.Duration
}

// Resolve joins the configuration with OpenTelemetry's standard variables, which a platform may set for every process.
// They apply if the configuration sets nothing. nil means that traces are off. If a variable requires something that
// is not supported, Resolve returns an error. Errors never show the value of a variable.
//
// The exporters read the remaining OTEL_EXPORTER_OTLP_ variables themselves. Endpoint, protocol and headers are read
// here because they turn traces on, choose the exporter, and must be masked in messages. The others configure the SDK's
// sampler and span processor, which are not used.
//
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
// https://opentelemetry.io/docs/specs/otel/protocol/exporter/
func Resolve(g Given, getenv func(string) string) (*Settings, error) {
	e := environment{getenv: getenv}
	s := &Settings{
		Limit: g.Limit,
		Queue: e.number("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
		Batch: e.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
		Delay: time.Duration(e.number("OTEL_BSP_SCHEDULE_DELAY", 1000)) * time.Millisecond,
	}
	endpoint, perSignal := g.Endpoint, true
	if endpoint == "" {
		if e.off() {
			return nil, nil
		}
		if endpoint = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); endpoint == "" {
			endpoint, perSignal = getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), false
		}
	}
	if endpoint == "" || endpoint == Off {
		return nil, nil
	}
	s.GRPC = g.Protocol == "grpc" || g.Protocol == "" && e.grpc()
	e.setURL(s, endpoint, perSignal, g.Endpoint != "")
	if s.Sample = g.Sample; g.Default {
		s.Sample = e.sampler(g.Sample)
	}
	e.setHeaders(s, g.Headers)
	e.propagators()
	e.rest()
	return s, errors.Join(e.problems...)
}

// environment reads variables and collects the problems with them.
type environment struct {
	getenv   func(string) string
	problems []error
}

func (e *environment) fail(name, why string) {
	e.problems = append(e.problems, fmt.Errorf("%s %s", name, why))
}

// off reports whether the variables turn traces off.
func (e *environment) off() bool {
	if strings.EqualFold(e.getenv("OTEL_SDK_DISABLED"), "true") {
		return true
	}
	switch e.getenv("OTEL_TRACES_EXPORTER") {
	case "", "otlp":
		return false
	case "none":
		return true
	}
	e.fail("OTEL_TRACES_EXPORTER", "names an exporter that is not supported: use otlp or none")
	return false
}

func (e *environment) grpc() bool {
	name := "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	if e.getenv(name) == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch e.getenv(name) {
	case "grpc":
		return true
	case "", "http/protobuf", "http/json":
		return false
	}
	e.fail(name, "is not grpc, http/protobuf or http/json")
	return false
}

// CheckEndpoint checks traces.endpoint. Messages name the URL, so it must not contain a secret: no password, no query.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" || endpoint == Off {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("is not an http:// or https:// URL such as http://otel-collector:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has more than scheme, host and path; put credentials into traces.headers")
	}
	return nil
}

// setURL makes the URL that spans are posted to.
func (e *environment) setURL(s *Settings, endpoint string, perSignal, ours bool) {
	if err := CheckEndpoint(endpoint); err != nil {
		name := "traces.endpoint"
		switch {
		case !ours && perSignal:
			name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		case !ours:
			name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		}
		e.fail(name, err.Error())
		return
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return // cannot happen after the check
	case s.GRPC:
		u.Path = ""
	case !perSignal:
		u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	case ours && (u.Path == "" || u.Path == "/"):
		u.Path = "/v1/traces"
	}
	s.URL = u.String()
}

// sampler accepts samplers that ask the parent first: any other sampler would break the writer's traces.
func (e *environment) sampler(otherwise float64) float64 {
	switch e.getenv("OTEL_TRACES_SAMPLER") {
	case "":
		return otherwise
	case "parentbased_always_on":
		return 1
	case "parentbased_always_off":
		return 0
	case "parentbased_traceidratio":
		arg := e.getenv("OTEL_TRACES_SAMPLER_ARG")
		if arg == "" {
			return 1 // the specification's default
		}
		share, err := strconv.ParseFloat(arg, 64)
		if err != nil || !(share >= 0 && share <= 1) {
			e.fail("OTEL_TRACES_SAMPLER_ARG", "is not a number from 0 to 1")
		}
		return share
	}
	e.fail("OTEL_TRACES_SAMPLER", "is not parentbased_always_on, parentbased_always_off or parentbased_traceidratio; "+
		"traces.sample overrides it")
	return 0
}

// setHeaders reads the variables here and does not leave them to the exporter, because their values must be masked.
func (e *environment) setHeaders(s *Settings, text string) {
	name := "traces.headers"
	for _, n := range []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"} {
		if text == "" {
			name, text = n, e.getenv(n)
		}
	}
	var err error
	if s.Headers, err = ParseHeaders(text); err != nil {
		e.fail(name, err.Error())
	}
}

// propagators: only W3C Trace Context is supported.
func (e *environment) propagators() {
	v := e.getenv("OTEL_PROPAGATORS")
	for p := range strings.SplitSeq(v, ",") {
		if p = strings.TrimSpace(p); p == "tracecontext" {
			return
		}
	}
	if v != "" {
		e.fail("OTEL_PROPAGATORS", "does not name tracecontext, the only supported propagator")
	}
}

// rest refuses limits of the span processor that have no counterpart here.
func (e *environment) rest() {
	if e.getenv("OTEL_BSP_EXPORT_TIMEOUT") != "" {
		e.fail("OTEL_BSP_EXPORT_TIMEOUT", "has no effect here; use OTEL_EXPORTER_OTLP_TIMEOUT")
	}
}

func (e *environment) number(name string, otherwise int) int {
	v := e.getenv(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1_000_000 {
		e.fail(name, "is not a number from 1 to 1000000")
		return otherwise
	}
	return n
}

// ParseHeaders reads name=value pairs between commas, values percent-encoded (W3C Baggage without properties, as
// OTEL_EXPORTER_OTLP_HEADERS). Its error does not show them.
func ParseHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" ||
			strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n\x00") {
			return nil, errors.New("is not name=value, …, with values percent-encoded")
		}
		headers[strings.ToLower(name)] = value
	}
	return headers, nil
}
