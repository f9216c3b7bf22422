"""Address of an owner's account, without anybody's word for it.

The well-known factory deploys an account by CREATE2 (EIP-1014), so its address follows from the
owner: keccak256(0xff, factory, salt, keccak256(creation code with its arguments)). Whoever named
another one would be paid what is meant for the owner.
"""

from __future__ import annotations

import base64
import zlib
from typing import Final

from eth_abi.abi import encode
from eth_typing import ChecksumAddress
from eth_utils.address import to_canonical_address, to_checksum_address
from eth_utils.crypto import keccak

FACTORY: Final = to_checksum_address("0x9406Cc6185a346906296840746125a0E44976454")
"""SimpleAccountFactory of EntryPoint v0.6 on every chain."""
IMPLEMENTATION: Final = to_checksum_address(
    keccak(b"\xd6\x94" + to_canonical_address(FACTORY) + b"\x01")[12:]
)
"""SimpleAccount to which every account delegates: the factory's first CREATE (RLP of its address,
and nonce 1)."""
_SALT: Final = bytes(32)
_INITIALIZE: Final = keccak(b"initialize(address)")[:4]
_PROXY: Final = zlib.decompress(
    base64.b85decode(
        "c-oy*TWB0r7(QoaX#xsOQnN|i$WB5bUPz(XCQU=qjrEdJQf8;kOvotyr`bsj-R`#CrA4e{F1scumYMB^5WKX_Qz(6^Mj"
        "}C!qG(atw}>SgEWQXT+Io3O<9}v$V<T%?Jj2}1`ETd@zwdwvF$H3AR`JO;(Zr|IVNr-#uEI#O$HXR8XJnIY17T#Vs>?D"
        "9b@QoihmnJ-4#bXEn~dz%WK*wYWLRS);o#aukRpscRtHiedZC}py|NY~^XL_e1I6oHM6|>1=-i3<LFwm~rO9tUye#$n+"
        "27PRcW`<7!H=8uj&C+S-`eQ{aW9}h03+8O2fa-|@0emji=}`>S;Zu@cpZ#RtNN)zG1re46Po=h`hzMMjce$;|Jle_@I!"
        "<<Ldd2Hw8BPwjXtC7+}zRDzFkTg$EA@&hm*!3Bb8;@k#tHL$w(=98m*F%h06Ng`WrXiZk!lcfXN6Xc!(V3don%IUD8cP"
        "$4A>LPoM8RKh?DEz~_(dYMp)aYPWRk%l56)($rP?g>6sF0f{hSvtQkjpgMD336h3z>8s!t!k+8Zx&8j`ftdNyQaI0>Mn"
        "CghCjP?v!1Ftzl^?wA$#Rzo#CnJclyBIRA=&^tx@g$upmo_w7n(~s+RcP@Jg$fRaSO65Gok)9#~EY77F9ocM)n69lu~x"
        "q*1D?hau=tT2~(OK2O=`zEv;md4|n>%Wl(-3K)EN8IBH}v+od6vOiJ0bluD;shtjF+Q8tt%g!m{!f->5RyulV;!o~@gk"
        "W#|?s($)ZP?8nL{GVzTZW-H;n6Jth;@${M=mAw9+SB{W5m<}>QJ@Dx3Ty<jgmCGORaMKxD$TNJ+~GNqM#5hz&Q~Lk6Ph"
        "do@u<R~#pq66tU>cF8vZTm_6mKiFv2YE4yHM#aRky|j73D##!%u*!J?I?o}7oMLu;6LqBs|~csB8*hBp(w3zQMXHbom;"
        "D-1hm*rKjuS6fb19oo&H-HdN%VIyrz8OM}kl=2wYf{;vHL`WP8(m3wtcjQ&Ej|I8l%7I{6h*~+2#sUK*7%g~yqa_3n*G"
        ";|=g@qo+EP1+O2vJ@aCnWB!=)%N4lZE<#bO5<^2l!#q#>fUd1*#dTQ+0wutj4<qPZN|s*X69L2U6ZsR?5P!zLd$rij*_"
        "UWyW1(#FOd0dkSt}`6xVujE^=1uN`lE=LT=1KFn^@L>_#t;rA`Q%O{O5!18edHC7<$1n0lhNT0fg8tHQ-HF|h4I^c_u?"
        "q4NFE<L(blpg&<D_alOA+BM%(aI|?pCfCG|E<t}PCPEt3NF(MF4Oh@l4*3cOz)>4F5sUymhY-7QWa9GrK%RCD!hus&mm"
        "v+B0!wr!kH4m_pU*3;iJ0<zSk%C=<?cQaTWdVtYDQ)A8$<>$Bd+uFp|armNf$ShS^BcNL)ya93IXLG}lOt^RLfL)ohqJ"
        "%dY)4fBnTTX0N>QaPFkN>-(D%#^gI6+)QNB$)TO3ay@zSK4bq4btuwP"
    )
)
"""Creation code of an account: OpenZeppelin's ERC1967Proxy (MIT) as the factory has it."""


def account_address(owner: ChecksumAddress) -> ChecksumAddress:
    """Return the address of an owner's account, deployed or not."""
    initialize = _INITIALIZE + encode(("address",), (owner,))
    creation = _PROXY + encode(("address", "bytes"), (IMPLEMENTATION, initialize))
    parts = b"\xff" + to_canonical_address(FACTORY) + _SALT + keccak(creation)
    return to_checksum_address(keccak(parts)[12:])
