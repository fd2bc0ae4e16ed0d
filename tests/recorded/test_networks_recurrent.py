import numpy as np
import pytest

from tests.recorded.networks_recurrent import NETWORKS, recorded


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_computes_what_is_recorded(name):
    found = NETWORKS[name]()
    for case, expected in recorded(name).items():
        np.testing.assert_allclose(found[case], expected, rtol=1e-5, atol=1e-5, err_msg=case)
