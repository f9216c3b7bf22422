import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;

/** A wallet's first calls with java.net.http, all settings left as they are: see client.mjs. */
class Client {
    static final HttpClient HTTP = HttpClient.newHttpClient();

    static CompletableFuture<HttpResponse<String>> post(
            String url, String authorization, String type, String body) {
        var request = HttpRequest.newBuilder(URI.create(url))
                .header("Authorization", authorization)
                .header("Content-Type", type)
                .POST(HttpRequest.BodyPublishers.ofString(body))
                .build();
        return HTTP.sendAsync(request, HttpResponse.BodyHandlers.ofString());
    }

    /** A member's text; the JDK has no JSON. */
    static String member(HttpResponse<String> answer, String name) {
        var found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(answer.body());
        if (!found.find()) throw new IllegalStateException(answer.statusCode() + answer.body());
        return found.group(1);
    }

    public static void main(String[] args) {
        String gateway = args[0], node = args[1], user = args[2], json = "application/json";
        var pair = System.getenv("WAAS_API_KEY") + ":" + System.getenv("WAAS_API_SECRET");
        var basic = "Basic " + Base64.getEncoder().encodeToString(pair.getBytes());
        post(gateway + "/member/user-management/v3/signup", basic, json, "{\"username\":\"" + user + "\"}")
                .join();
        var login = post(gateway + "/auth/auth-service/v3/login", basic,
                "application/x-www-form-urlencoded", "grant_type=client_credentials&username=" + user);
        var bearer = "Bearer " + member(login.join(), "access_token");

        String wallet = node + "/v3/wallet/", sign = wallet + "sign";
        var share = post(wallet + "generate", bearer, json,
                "{\"curve\":\"secp256k1\",\"password\":\"correct horse\"}").join();
        var record = share.body().substring(0, share.body().length() - 1);
        var order = record + ",\"message\":\"" + "ab".repeat(32) + "\"";
        List<String> signatures = new ArrayList<>();
        for (int i = 0; i < 10; i++)
            signatures.add(member(post(sign, bearer, json, order + "}").join(), "signature"));
        var signers = List.of("operator", "institution").stream()
                .map(signer -> post(sign, bearer, json, order + ",\"signer\":\"" + signer + "\"}"))
                .toList();
        for (var answer : signers) signatures.add(member(answer.join(), "signature"));
        int refused = post(sign, "Bearer nothing", json, order + "}").join().statusCode();
        System.out.println("{\"public_key\":\"" + member(share, "public_key") + "\",\"signatures\":[\""
                + String.join("\",\"", signatures) + "\"],\"refused\":" + refused + "}");
    }
}
