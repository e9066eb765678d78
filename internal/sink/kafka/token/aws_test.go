package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cdc-outbox/cdc-outbox/internal/sink"
	"github.com/cdc-outbox/cdc-outbox/internal/sink/kafka/wire"
)

// alone hides the credentials of the user who runs the tests.
func alone(t *testing.T) string {
	dir := t.TempDir()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
			require.NoError(t, os.Unsetenv(name))
		}
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(dir, "config"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(dir, "credentials"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	return dir
}

// verify checks a token as AWS does: Signature Version 4 in the query of a URL, computed here from its description.
func verify(t *testing.T, token, region, secret string) url.Values {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	u, err := url.Parse(string(text))
	require.NoError(t, err)
	require.Equal(t, "https://kafka."+region+".amazonaws.com/", u.Scheme+"://"+u.Host+u.Path)
	q := u.Query()
	require.Equal(t, "kafka-cluster:Connect", q.Get("Action"))
	require.Equal(t, "host", q.Get("X-Amz-SignedHeaders"))
	scope := q.Get("X-Amz-Date")[:8] + "/" + region + "/kafka-cluster/aws4_request"
	require.True(t, strings.HasSuffix(q.Get("X-Amz-Credential"), "/"+scope))
	var pairs []string
	for name, values := range q {
		if name != "X-Amz-Signature" && name != "User-Agent" { // the agent is added to what was signed
			pairs = append(pairs, strings.ReplaceAll(url.QueryEscape(name)+"="+url.QueryEscape(values[0]), "+", "%20"))
		}
	}
	slices.Sort(pairs)
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	request := strings.Join([]string{
		"GET", "/", strings.Join(pairs, "&"), "host:" + u.Host, "", "host", sum(""),
	}, "\n")
	key := []byte("AWS4" + secret)
	mac := func(text string) {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		key = h.Sum(nil)
	}
	for part := range strings.SplitSeq(scope, "/") {
		mac(part)
	}
	mac("AWS4-HMAC-SHA256\n" + q.Get("X-Amz-Date") + "\n" + scope + "\n" + sum(request))
	require.Equal(t, hex.EncodeToString(key), q.Get("X-Amz-Signature"))
	return q
}

func signed(t *testing.T, a AWS) wire.Token {
	t.Helper()
	token, err := a.New().Get(t.Context())
	require.NoError(t, err)
	return token
}

// TestAWSEnvironment and profile: credentials that last.
func TestAWSEnvironment(t *testing.T) {
	dir := alone(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config"),
		[]byte("[profile kafka]\nregion = eu-west-1\naws_access_key_id = AKIDPROFILE\n"+
			"aws_secret_access_key = p\n"), 0o600))
	began := time.Now().Truncate(time.Second) // a signature names no part of a second
	token := signed(t, AWS{Profile: "kafka"})
	q := verify(t, token.Value, "eu-west-1", "p")
	require.True(t, strings.HasPrefix(q.Get("X-Amz-Credential"), "AKIDPROFILE/"))
	require.WithinRange(t, token.Expires, began.Add(15*time.Minute), time.Now().Add(15*time.Minute))

	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", canary)
	t.Setenv("AWS_SESSION_TOKEN", "session")
	t.Setenv("AWS_REGION", "us-east-1")
	q = verify(t, signed(t, AWS{}).Value, "us-east-1", canary)
	require.Equal(t, "session", q.Get("X-Amz-Security-Token"))
	verify(t, signed(t, AWS{Region: "eu-central-1"}).Value, "eu-central-1", canary)
}

// TestAWSFindsNothing: the error says what was looked for, in reasonable time.
func TestAWSFindsNothing(t *testing.T) {
	alone(t)
	for region, says := range map[string]string{"": "no region", "eu-central-1": "credential"} {
		_, err := AWS{Region: region}.New().Get(t.Context())
		var e *wire.TokenError
		require.ErrorAs(t, err, &e)
		require.ErrorContains(t, err, says)
		require.Contains(t, e.Remedy, "kafka.sasl.aws.region")
	}
}

// tokenService answers as AWS's token service does, and notes what was asked.
func tokenService(t *testing.T, action string) *url.Values {
	t.Helper()
	var asked url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		asked = r.PostForm
		if r.PostForm.Get("RoleArn") == "arn:aws:iam::1:role/forbidden" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprint(w, `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>`+
				`<Message>not authorized to perform sts:AssumeRole</Message></Error></ErrorResponse>`)
			return
		}
		_, _ = fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">`+
			`<%[1]sResult><Credentials>`+
			`<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>role</SecretAccessKey><SessionToken>s</SessionToken>`+
			`<Expiration>%s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action,
			time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", s.URL)
	return &asked
}

// TestAWSWebIdentity is how a pod with IRSA logs in. The token ends with the role's session.
func TestAWSWebIdentity(t *testing.T) {
	dir := alone(t)
	file := filepath.Join(dir, "web-identity")
	require.NoError(t, os.WriteFile(file, []byte("projected"), 0o600))
	t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
	t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod")
	asked := tokenService(t, "AssumeRoleWithWebIdentity")
	token := signed(t, AWS{Region: "eu-central-1"})
	verify(t, token.Value, "eu-central-1", "role")
	require.Equal(t, "projected", asked.Get("WebIdentityToken"))
	require.Equal(t, "arn:aws:iam::1:role/pod", asked.Get("RoleArn"))
	require.Less(t, time.Until(token.Expires), 11*time.Minute)
}

// TestAWSAssumesARole with an external id, and says when it may not.
func TestAWSAssumesARole(t *testing.T) {
	alone(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
	t.Setenv("AWS_SECRET_ACCESS_KEY", canary)
	asked := tokenService(t, "AssumeRole")
	a := AWS{Region: "eu-central-1", RoleARN: "arn:aws:iam::1:role/writer", ExternalID: "x-1"}
	verify(t, signed(t, a).Value, "eu-central-1", "role")
	require.Equal(t, "arn:aws:iam::1:role/writer", asked.Get("RoleArn"))
	require.Equal(t, "x-1", asked.Get("ExternalId"))
	a.RoleARN = "arn:aws:iam::1:role/forbidden"
	_, err := a.New().Get(t.Context())
	var e *wire.TokenError
	require.ErrorAs(t, err, &e)
	require.Equal(t, sink.NotAuthenticated, e.Kind)
	require.ErrorContains(t, err, "AccessDenied")
	require.Contains(t, e.Remedy, "kafka.sasl.aws.role_arn")
	require.NotContains(t, err.Error(), canary)
}

// TestAWSInstanceRole asks the instance's metadata service, version 2.
func TestAWSInstanceRole(t *testing.T) {
	alone(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
			_, _ = fmt.Fprint(w, "imds")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "imds":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
			_, _ = fmt.Fprint(w, "kafka-writer")
		case strings.HasSuffix(r.URL.Path, "/kafka-writer"):
			credentials(w, "instance")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer s.Close()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", s.URL)
	verify(t, signed(t, AWS{Region: "eu-central-1"}).Value, "eu-central-1", "instance")
}

// TestAWSContainer is EKS pod identity, and ECS.
func TestAWSContainer(t *testing.T) {
	dir := alone(t)
	file := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(file, []byte("pod"), 0o600))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "pod" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		credentials(w, "container")
	}))
	defer s.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", s.URL+"/v1/credentials")
	t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file)
	verify(t, signed(t, AWS{Region: "eu-central-1"}).Value, "eu-central-1", "container")
}

func credentials(w http.ResponseWriter, secret string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"Code":"Success","Type":"AWS-HMAC","AccessKeyId":"ASIA",`+
		`"SecretAccessKey":"%s","Token":"s",`+
		`"Expiration":"%s"}`, secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}
