// A wallet's first calls with net/http, all settings left as they are: see client.mjs.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
)

type object = map[string]any

func post(to, authorization, kind string, body []byte) (int, object) {
	request, _ := http.NewRequest("POST", to, bytes.NewReader(body))
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	defer answer.Body.Close()
	said := object{}
	json.NewDecoder(answer.Body).Decode(&said)
	return answer.StatusCode, said
}

func main() {
	gateway, node, user := os.Args[1], os.Args[2], os.Args[3]
	asked := func(to, authorization string, what object) (int, object) {
		body, _ := json.Marshal(what)
		return post(to, authorization, "application/json", body)
	}
	login, _ := http.NewRequest("POST", gateway, nil)
	login.SetBasicAuth(os.Getenv("WAAS_API_KEY"), os.Getenv("WAAS_API_SECRET"))
	basic := login.Header.Get("Authorization")
	asked(gateway+"/member/user-management/v3/signup", basic, object{"username": user})
	form := url.Values{"grant_type": {"client_credentials"}, "username": {user}}.Encode()
	_, token := post(gateway+"/auth/auth-service/v3/login", basic, "application/x-www-form-urlencoded", []byte(form))
	bearer := fmt.Sprint("Bearer ", token["access_token"])

	wallet := node + "/v3/wallet/"
	_, order := asked(wallet+"generate", bearer, object{"curve": "secp256k1", "password": "correct horse"})
	order["message"] = strings.Repeat("ab", 32)
	signatures := []any{}
	for i := 0; i < 10; i++ {
		_, signed := asked(wallet+"sign", bearer, order)
		signatures = append(signatures, signed["signature"])
	}
	both := make(chan any)
	for _, signer := range []string{"operator", "institution"} {
		with := object{"signer": signer}
		for name, value := range order {
			with[name] = value
		}
		go func() {
			_, signed := asked(wallet+"sign", bearer, with)
			both <- signed["signature"]
		}()
	}
	signatures = append(signatures, <-both, <-both)
	refused, _ := asked(wallet+"sign", "Bearer nothing", order)
	said, _ := json.Marshal(object{"public_key": order["public_key"], "signatures": signatures, "refused": refused})
	fmt.Println(string(said))
}
