package token

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiry reads the end of a JSON Web Token (RFC 7519), zero for a token of another form. The signature is for the
// broker to check.
func expiry(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.Exp <= 0 || claims.Exp > 1<<40 {
		return time.Time{}
	}
	return time.UnixMilli(int64(claims.Exp * 1000))
}
